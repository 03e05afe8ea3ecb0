"""Lists and watches: selection, pages, order, bookmarks, history."""

from __future__ import annotations

import pytest

from taugrid_ray.errors import ApiError, Gone, NotFound
from taugrid_ray.kinds.resource import CONFIG_MAP, POD, PROVISIONING_REQUEST
from taugrid_ray.kube.api import Change, KubeApi, list_all
from taugrid_ray.kube.delta import version_of

from .conftest import Cluster, config_map, pod


def test_get_of_what_does_not_exist(api: KubeApi, ns: str, name: str) -> None:
    with pytest.raises(NotFound) as refused:
        api.get(CONFIG_MAP, name, ns)
    assert refused.value.reason == "NotFound"
    assert name in refused.value.message


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("run={run}", "abc"),
        ("run={run},color=red", "a"),
        ("run={run},color==red", "a"),
        ("run={run},color!=red", "bc"),
        ("run={run},color in (red, blue)", "ab"),
        ("run={run},color notin (red)", "bc"),
        ("run={run},color", "ab"),
        ("run={run},!color", "c"),
        ("run={run},color=", ""),
    ],
)
def test_label_selectors(api: KubeApi, ns: str, name: str, selector: str, want: str) -> None:
    for suffix, labels in (("a", {"color": "red"}), ("b", {"color": "blue"}), ("c", {})):
        api.create(CONFIG_MAP, config_map(f"{name}-{suffix}", {"run": name} | labels), ns)
    found = list_all(api, CONFIG_MAP, ns, labels=selector.format(run=name))
    assert [obj["metadata"]["name"] for obj in found] == [f"{name}-{suffix}" for suffix in want]


def test_field_selectors(api: KubeApi, ns: str, name: str) -> None:
    api.create(POD, pod(name, nodeName=f"n-{name}"), ns)
    api.create(POD, pod(f"{name}-x"), ns)
    for fields, count in (
        (f"spec.nodeName=n-{name}", 1),
        (f"metadata.name={name}-x", 1),
        (f"metadata.name={name}-x,metadata.namespace={ns}", 1),
        (f"metadata.name={name}-x,spec.nodeName!=", 0),
        (f"metadata.name={name}-x,status.phase=Pending", 1),
        (f"metadata.name={name}-x,status.phase!=Pending", 0),
    ):
        assert len(list_all(api, POD, ns, fields=fields)) == count, fields
    for suffix in ("", "-x"):
        api.delete(POD, f"{name}{suffix}", ns, grace_s=0)


def test_a_field_that_cannot_be_selected_by(cluster: Cluster, api: KubeApi, ns: str) -> None:
    cluster.needs(PROVISIONING_REQUEST)
    for kind in (POD, PROVISIONING_REQUEST):
        with pytest.raises(ApiError) as refused:
            api.list_page(kind, ns, fields="spec.nothing=1")
        assert refused.value.status == 400


def test_items_say_their_kind(api: KubeApi, ns: str, name: str) -> None:
    api.create(CONFIG_MAP, config_map(name), ns)
    (item,) = list_all(api, CONFIG_MAP, ns, fields=f"metadata.name={name}")
    assert (item["apiVersion"], item["kind"]) == ("v1", "ConfigMap")


def test_all_namespaces(api: KubeApi, ns: str, name: str) -> None:
    api.create(CONFIG_MAP, config_map(name, {"run": name}), ns)
    api.create(CONFIG_MAP, config_map(name, {"run": name}), "default")
    try:
        found = list_all(api, CONFIG_MAP, labels=f"run={name}")
        assert {obj["metadata"]["namespace"] for obj in found} == {ns, "default"}
    finally:
        api.delete(CONFIG_MAP, name, "default")


def test_pages_are_one_snapshot(api: KubeApi, ns: str, name: str) -> None:
    for suffix in "abcde":
        api.create(CONFIG_MAP, config_map(f"{name}-{suffix}", {"run": name}), ns)
    labels = f"run={name}"
    first = api.list_page(CONFIG_MAP, ns, labels=labels, page_size=2)
    assert len(first.items) == 2
    assert first.next_page
    api.delete(CONFIG_MAP, f"{name}-d", ns)
    api.create(CONFIG_MAP, config_map(f"{name}-f", {"run": name}), ns)
    rest = []
    page = first
    while page.next_page:
        page = api.list_page(CONFIG_MAP, ns, labels=labels, page_size=2, page=page.next_page)
        rest += [obj["metadata"]["name"][-1] for obj in page.items]
        assert page.resource_version == first.resource_version
    assert rest == ["c", "d", "e"]


def test_a_watch_goes_on_from_a_list(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    api.create(CONFIG_MAP, config_map(f"{name}-old", {"run": name}), ns)
    version = api.list_page(CONFIG_MAP, ns, labels=f"run={name}").resource_version
    made = api.create(CONFIG_MAP, config_map(name, {"run": name}, a="1"), ns)
    changed = api.patch(CONFIG_MAP, name, {"data": {"a": "2"}}, ns)
    api.patch(CONFIG_MAP, name, {"data": {"a": "2"}}, ns)  # changes nothing
    api.delete(CONFIG_MAP, name, ns)
    events = cluster.changes(CONFIG_MAP, version, 3, labels=f"run={name}")
    assert [event.change for event in events] == [Change.ADDED, Change.MODIFIED, Change.DELETED]
    assert [event.object["data"]["a"] for event in events] == ["1", "2", "2"]
    assert [version_of(event.object) for event in events[:2]] == [
        version_of(made),
        version_of(changed),
    ]
    assert version_of(events[2].object) > version_of(changed)
    assert events[2].object["kind"] == "ConfigMap"


def test_a_watch_begins_where_it_is_told(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    made = api.create(CONFIG_MAP, config_map(name, {"run": name}, a="1"), ns)
    api.patch(CONFIG_MAP, name, {"data": {"a": "2"}}, ns)
    (event,) = cluster.changes(CONFIG_MAP, str(version_of(made)), 1, labels=f"run={name}")
    assert (event.change, event.object["data"]["a"]) == (Change.MODIFIED, "2")


def test_who_enters_a_selection_is_added_and_who_leaves_it_is_deleted(
    cluster: Cluster, api: KubeApi, ns: str, name: str
) -> None:
    version = api.list_page(CONFIG_MAP, ns).resource_version
    api.create(CONFIG_MAP, config_map(name, {"run": name}, a="1"), ns)
    for color in ("red", "red", "blue", "red"):
        patch = {"metadata": {"labels": {"color": color}}, "data": {"last": color}}
        api.patch(CONFIG_MAP, name, patch, ns)
    api.patch(CONFIG_MAP, name, {"data": {"a": "2"}}, ns)
    events = cluster.changes(CONFIG_MAP, version, 4, labels=f"run={name},color=red")
    assert [event.change.value for event in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED"]
    # Who left is shown as it last was inside, with the version of the change that took it out.
    assert events[1].object["metadata"]["labels"]["color"] == "red"
    assert version_of(events[0].object) < version_of(events[1].object)


def test_a_watch_ends_when_it_is_told(api: KubeApi, ns: str) -> None:
    version = api.list_page(CONFIG_MAP, ns).resource_version
    events = api.watch(CONFIG_MAP, ns, resource_version=version, timeout_s=1)
    assert {event.change for event in events} <= {Change.BOOKMARK}


@pytest.mark.timeout(200)
def test_a_quiet_watch_gets_a_bookmark(api: KubeApi, ns: str) -> None:
    """A real server takes its time: one minute, sometimes two."""
    version = api.list_page(CONFIG_MAP, ns).resource_version
    events = api.watch(CONFIG_MAP, ns, resource_version=version, timeout_s=150)
    mark = next(event for event in events if event.change is Change.BOOKMARK)
    assert version_of(mark.object) >= int(version)
    assert "name" not in mark.object["metadata"]


def test_a_version_that_is_too_old(cluster: Cluster, api: KubeApi, ns: str, name: str) -> None:
    if cluster.fake is None:
        pytest.skip("a client cannot make a real server forget")
    version = api.list_page(CONFIG_MAP, ns).resource_version
    for suffix in "abc":
        api.create(CONFIG_MAP, config_map(f"{name}-{suffix}"), ns)
    half = api.list_page(CONFIG_MAP, ns, page_size=1)
    cluster.fake.compact()
    with pytest.raises(Gone):
        next(iter(api.watch(CONFIG_MAP, ns, resource_version=version)))
    with pytest.raises(Gone):
        api.list_page(CONFIG_MAP, ns, page_size=1, page=half.next_page)
