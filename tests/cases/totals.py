"""What each manifest of the folder of cases must come to, worked out by hand from the manifest.

None of these numbers was taken from the code. The comment beside each says how it is made, in the
order head, workers, submitter. Added by KubeRay where it applies: the autoscaler container in the
head (500m, 512Mi), the submitter (500m, 200Mi) as a pod or, in SidecarMode, in the head; the
workers' wait for the head (200m, 256Mi) counts only where a worker asks for less. `counted` is
given where Kueue counts something else than the pods will ask for.

200Mi are 209715200 bytes. Memory in G and Gi together is written out in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sum:
    """A manifest that is a gang."""

    pods: Mapping[str, int]
    """Pods that will exist, per pod set, in order."""
    cpu: str = "0"
    memory: str = "0"
    others: Mapping[str, str] = field(default_factory=dict)
    counted: Mapping[str, str] | None = None
    """Kueue's sum where it differs; complete."""


@dataclass(frozen=True)
class Refused:
    """A manifest that cannot be a gang: parts of the one sentence (with its hint)."""

    says: tuple[str, ...]


def refused(*says: str) -> Refused:
    return Refused(says)


GPU, TPU = "nvidia.com/gpu", "google.com/tpu"

# head 1 CPU 2Gi, one worker 4 CPU 16Gi 1 GPU, submitter: 5.5 CPU; 2048 + 16384 + 200 = 18632Mi
_USUAL = Sum({"head": 1, "w": 1, "submitter": 1}, "5.5", "18632Mi", {GPU: "1"})
# head 1 CPU 2Gi, worker 1 CPU 1Gi, submitter: 2.5 CPU; 2048 + 1024 + 200 = 3272Mi
_SAMPLE = Sum({"head": 1, "small-group": 1, "submitter": 1}, "2.5", "3272Mi")
# the submitter of a job for a cluster that exists already
_SUBMITTER = Sum({"submitter": 1}, "0.5", "200Mi")
_NO_CLUSTER = refused("spec.rayClusterSpec: is missing")

WANT: Mapping[str, tuple[Sum | Refused, ...]] = {
    "odd/01-rayjob-name-49-chars": (refused("49 characters", "at most 47"),),
    "odd/02-raycluster-name-63-chars-and-digit-first": (
        refused("63 characters", "at most 53"),
        refused("82ac5612-3bd9-4ef9-8828-5133dfe1a1fa", "a letter first"),
    ),
    # one pod, no memory written
    "odd/03-workload-name-253-chars": (Sum({"main": 1}, "1"),),
    "odd/04-group-name-uppercase-underscore": (refused("GPU_Workers", "'gpu-workers'"),),
    "odd/05-group-name-space-and-slash": (refused("small group", "team/group"),),
    "odd/06-group-name-64-chars-and-empty": (refused("cannot be the label", "is empty"),),
    "odd/07-duplicate-group-names": (refused("'workers' stands twice"),),
    "odd/08-group-names-differ-in-case-only": (refused("stands twice", "'Workers'"),),
    "odd/09-group-named-head-and-submitter": (refused("'head'", "'submitter'"),),
    # head 1 + autoscaler 0.5, submitter 0.5; 2048 + 512 + 200
    "odd/10-all-groups-zero": (
        Sum({"head": 1, "gpu-a": 0, "gpu-b": 0, "submitter": 1}, "2", "2760Mi"),
    ),
    # 1 + 0.5; 2048 + 200
    "odd/11-no-worker-groups": (Sum({"head": 1, "submitter": 1}, "1.5", "2248Mi"),),
    "odd/13-replicas-outside-min-max": (refused("5 is above maxReplicas 2", "crossed"),),
    "odd/16-num-of-hosts-extremes": (refused("0 is less than one pod", "-2 is less than"),),
    # 2147483647 x 4
    "odd/17-int32-overflow": (refused("8589934588 pods"),),
    "odd/18-memory-units": (refused("'1Gb'", "1G or 1Gi", "m8"),),
    # pods: 1 + 2 x 3 + 0.5; 2048 + 2 x 6144 + 200. Kueue takes the LimitRange's 1 CPU, 1Gi first:
    # 1 + 2 x 1 + 0.5; 2048 + 2 x 1024 + 200
    "odd/19-limits-only-with-limitrange": (
        Sum(
            {"head": 1, "w": 2, "submitter": 1},
            "7.5",
            "14536Mi",
            counted={"cpu": "3.5", "memory": "4296Mi"},
        ),
    ),
    # head 1.5, two workers that only wait for the head 2 x 0.2, submitter 0.5;
    # 2560 + 2 x 256 + 200. Kueue does not see the wait: 1.5 + 0.5; 2560 + 200
    "odd/20-no-resources-at-all": (
        Sum(
            {"head": 1, "w": 2, "submitter": 1},
            "2.4",
            "3272Mi",
            counted={"cpu": "2", "memory": "2760Mi"},
        ),
    ),
    # sidecar 100m runs beside the init container's 200m: 300m, twice
    "odd/21-native-sidecar-before-init": (Sum({"main": 2}, "600m"),),
    # 1 + 4 + 8 + 0.5; 2048 + 16384 + 65536 + 200; the pods' GPUs 1 + 4, whatever num-gpus says
    "odd/23-num-gpus-override": (
        Sum(
            {"head": 1, "claims-more": 1, "claims-none": 1, "submitter": 1},
            "13.5",
            "84168Mi",
            {GPU: "5"},
        ),
    ),
    "odd/24-resources-in-two-places": (refused("num-gpus", "only one of the two"),),
    "odd/25-custom-resources-json": (refused("broken", "is not a JSON object"),),
    # 1 + 8 x 2 + 0.5; 2048 + 8 x 8192 + 200; one of each device
    "odd/26-gpu-resource-names": (
        Sum(
            {"head": 1, **{f"g{i}": 1 for i in range(8)}, "submitter": 1},
            "17.5",
            "67784Mi",
            {
                "nvidia.com/mig-1g.5gb": "1",
                "nvidia.com/mig-3g.40gb": "1",
                "amd.com/gpu": "1",
                "gpu.intel.com/i915": "1",
                "habana.ai/gaudi": "1",
                "huawei.com/Ascend910": "1",
                "aws.amazon.com/neuron": "1",
                "acme.example/gpu": "1",
            },
        ),
    ),
    "odd/27-fractional-and-unequal-gpu": (refused("'0.5' is not whole", "differs from the limit"),),
    "odd/28-suspend-without-shutdown": (refused("shutdownAfterJobFinishes", "write true"),),
    "odd/29-cluster-selector-variants": (
        refused("clusterSelector cannot be suspended"),
        refused("keep one of the two"),
        _NO_CLUSTER,
        refused("write the RayCluster's name"),
    ),
    "odd/30-submission-mode-conflicts": (
        refused("spec.submitterPodTemplate", "SidecarMode"),
        refused("spec.backoffLimit", "must be 0 in InteractiveMode"),
        refused("'k8sjobmode'", "write K8sJobMode"),
    ),
    "odd/31-entrypoint-quoting": (_USUAL,) * 9,
    "odd/32-runtime-env-variants": (
        refused("spec.runtimeEnvYAML: is not YAML"),
        refused("is not a mapping"),
        *(_USUAL,) * 4,
    ),
    # 1 + 2 x 4 + 0.5; 2048 + 2 x 16384 + 200
    "odd/34-flavors-same-label-key": (
        Sum({"head": 1, "gpu": 2, "submitter": 1}, "9.5", "35016Mi", {GPU: "2"}),
    ),
    "odd/36-provreq-hand-written": (Sum({"main": 1}, "1", "600Mi"),),
    "odd/37-provreqconfig-extremes": (),
    "odd/38-provreq-status-zoo": (),
    # min(100, 3); 5 without completions; 0; min(50, 1); 10001; 1 by default: 1 CPU, 1Gi each
    "odd/39-job-counts": (
        Sum({"main": 3}, "3", "3Gi"),
        Sum({"main": 5}, "5", "5Gi"),
        Sum({"main": 0}),
        Sum({"main": 1}, "1", "1Gi"),
        Sum({"main": 10001}, "10001", "10001Gi"),
        Sum({"main": 1}, "1", "1Gi"),
    ),
    "odd/40-job-annotations-bad": (
        refused("job-min-parallelism", "'abc' is not a whole number"),
        refused("job-min-parallelism", "0 is not between"),
        refused("job-min-parallelism", "9 is not between"),
        refused("completionMode: Indexed", "8 must equal parallelism 4"),
        refused("elastic-job", "keep one of the two"),
    ),
    # head 1 + 0.5 and 2560Mi each time, 4 CPU 16Gi 1 GPU a worker; a replica of gpu-b is two pods
    "odd/41-elastic-scale-sequence": (
        # 4 + 2 x 2 = 8 workers: 1.5 + 32; 2560 + 8 x 16384
        Sum({"head": 1, "gpu-a": 4, "gpu-b": 4}, "33.5", "133632Mi", {GPU: "8"}),
        # 64 + 4 = 68: 1.5 + 272; 2560 + 68 x 16384
        Sum({"head": 1, "gpu-a": 64, "gpu-b": 4}, "273.5", "1116672Mi", {GPU: "68"}),
        # 63 + 6 = 69: 1.5 + 276; 2560 + 69 x 16384
        Sum({"head": 1, "gpu-a": 63, "gpu-b": 6}, "277.5", "1133056Mi", {GPU: "69"}),
        Sum({"head": 1, "gpu-a": 0, "gpu-b": 0}, "1.5", "2560Mi"),
        # 64: 1.5 + 256; 2560 + 64 x 16384
        Sum({"head": 1, "gpu-a": 64, "gpu-b": 0}, "257.5", "1051136Mi", {GPU: "64"}),
        Sum({"head": 1, "gpu-a": 64, "gpu-b": 0}, "257.5", "1051136Mi", {GPU: "64"}),
    ),
    "odd/42-workers-to-delete-stale": (refused("enableInTreeAutoscaling", "elastic-job"),),
    "odd/43-group-suspend-and-idle-timeout": (
        # the suspended group makes no pods: 1 + 4; 2Gi + 16Gi. Kueue counts its 8 all the same:
        # 1 + 9 x 4; 2 + 9 x 16; 9
        Sum(
            {"head": 1, "paused": 0, "running": 1},
            "5",
            "18Gi",
            {GPU: "1"},
            counted={"cpu": "37", "memory": "146Gi", GPU: "9"},
        ),
        refused("cannot be suspended while", "-5 must not be negative"),
    ),
    # 1 + 4; 2Gi + 16Gi; the head is above what the Redis cleanup is counted with
    "odd/44-gcs-ft-external-redis": (Sum({"head": 1, "w": 1}, "5", "18Gi", {GPU: "1"}),),
    "odd/45-watch-streams": (refused("document 1: apiVersion is missing"),),
    "odd/50-quota-int64-edge": (),
    "odd/52-deadlines-and-ttl": (
        _USUAL,
        _USUAL,
        refused("ttlSecondsAfterFinished: -1 must not be negative"),
        _USUAL,
    ),
    "odd/53-status-moments": (_NO_CLUSTER,) * 7,
    "upstream/01-rayjob-kueue-toy": (_SAMPLE,),
    # the submitter is a container of the head: 1 + 0.5 + 1; 2048 + 200 + 1024
    "upstream/02-rayjob-sidecar-mode": (Sum({"head": 1, "small-group": 1}, "2.5", "3272Mi"),),
    # nobody submits: 1 + 1; 2Gi + 1Gi
    "upstream/03-rayjob-interactive-mode": (Sum({"head": 1, "default-group": 1}, "2", "3Gi"),),
    "upstream/04-rayjob-existing-cluster": (_SUBMITTER,),
    "upstream/05-rayjob-deletion-rules": (_SAMPLE,),
    # the submitter is the user's own pod, which asks for nothing: 1 + 1; 2Gi + 1Gi
    "upstream/06-rayjob-lightweight-submitter": (
        Sum({"head": 1, "small-group": 1, "submitter": 1}, "2", "3Gi"),
    ),
    # num-cpus 3 and num-gpus 2 on the head change nothing
    "upstream/07-rayjob-ray-resources": (_SAMPLE,),
    "upstream/08-rayjob-shutdown-ttl": (_SAMPLE,),
    # one replica of 64 hosts: 8 + 64 x 24 + 0.5; 40G + 64 x 200G + 200Mi; 64 x 4
    "upstream/09-rayjob-tpu-v6e-256": (
        Sum({"head": 1, "tpu-group": 64, "submitter": 1}, "1544.5", "12840209715200", {TPU: "256"}),
    ),
    # one replica of 4 hosts: 8 + 4 x 24 + 0.5; 40G + 4 x 200G + 200Mi; 4 x 4
    "upstream/10-rayjob-tpu-v6e-16": (
        Sum({"head": 1, "tpu-group": 4, "submitter": 1}, "104.5", "840209715200", {TPU: "16"}),
    ),
    # the GPU is the head's: 2 + 0.5; 8G + 200Mi
    "upstream/11-rayjob-gpu-head-no-workers": (
        Sum({"head": 1, "submitter": 1}, "2.5", "8209715200", {GPU: "1"}),
    ),
    # head with autoscaler 1 + 0.5; 2048 + 512
    "upstream/12-raycluster-autoscaler-v2": (Sum({"head": 1, "small-group": 0}, "1.5", "2560Mi"),),
    # one replica of 2 hosts: 8 + 2 x 1; 40G + 2 x 40G; 2 x 4; disk 10Gi + 2 x 10Gi
    "upstream/14-raycluster-tpu-v4-multihost": (
        Sum({"head": 1, "tpu-group": 2}, "10", "120G", {TPU: "8", "ephemeral-storage": "30Gi"}),
    ),
    # the Redis beside the head asks for nothing: 4 + 4; 8Gi + 8Gi
    "upstream/15-raycluster-redis-sidecar": (Sum({"head": 1, "small-group": 1}, "8", "16Gi"),),
    # shares of a GPU stand in an annotation and in no sum: 1 + 2 x 1; 2Gi + 2 x 1Gi
    "upstream/16-raycluster-kai-fraction": (Sum({"head": 1, "shared-gpu": 2}, "3", "4Gi"),),
    "upstream/17-raycluster-head-only-gpus": (Sum({"head": 1}, "36", "144G", {GPU: "4"}),),
    "upstream/18-raycronjob": (),
    # head 1 + 0.5 with the autoscaler's 512Mi, worker 1 with its wait's 256Mi, submitter:
    # 3; 512 + 256 + 200. Kueue does not see the wait: 512 + 200
    "upstream/20-kueue-rayjob-autoscaling": (
        Sum(
            {"head": 1, "small-group": 1, "submitter": 1},
            "3",
            "968Mi",
            counted={"cpu": "3", "memory": "712Mi"},
        ),
    ),
    # 1 + 1 + 0.5; 0 + 256 (the wait) + 200. Kueue: 200
    "upstream/21-kueue-rayjob": (
        Sum(
            {"head": 1, "small-group": 1, "submitter": 1},
            "2.5",
            "456Mi",
            counted={"cpu": "2.5", "memory": "200Mi"},
        ),
    ),
    # the full 20, not the 5 that it could start with: 20 x 1; 20 x 200Mi
    "upstream/24-kueue-job-partial-admission": (Sum({"main": 20}, "20", "4000Mi"),),
    # min(3, 100): 3 x 100m; 3 x 100Mi
    "upstream/25-kueue-job-elastic": (Sum({"main": 3}, "300m", "300Mi"),),
    "upstream/27-kueue-provisioning-job": (Sum({"main": 3}, "300m", "300Mi", {GPU: "3"}),),
    "upstream/31-kueue-concurrent-admission": (),
    "upstream/32-kueue-dra-extended-resource": (
        Sum({"main": 1}, "1", "200Mi", {"example.com/gpu": "1"}),
    ),
    "upstream/33-kueue-cronjob": (),
    "upstream/34-cluster-autoscaler-faq-provreq": (),
    "users/01-aks-single-queue": (),
    "users/03-aks-resource-flavors": (),
    # the submitter's own template asks for nothing: 4 + 4 x 16; 16Gi + 4 x 128Gi
    "users/04-aks-rayjob-llm-training": (
        Sum({"head": 1, "gpu-workers": 4, "submitter": 1}, "68", "528Gi", {GPU: "4"}),
    ),
    "users/05-aks-rayjob-aurora-unrendered": (refused("${QUEUE_NAME}", "${JOB_NAME}"),),
    # 4 + 12; 16Gi + 80Gi
    "users/06-aks-rayjob-batch-inference": (
        Sum({"head": 1, "gpu-workers": 1, "submitter": 1}, "16", "96Gi", {GPU: "1"}),
    ),
    "users/07-gke-rayjob-tpu-dws": (refused("metadata.name", "${JOB_ID}"),),
    "users/08-gke-dws-tpu-queue": (),
    "users/09-gke-raycluster-maxtext-multislice": (refused("serviceAccountName", "${KSA_NAME}"),),
    "users/10-gke-raycluster-verl-b200": (
        refused("gke-accelerator-count", "must be text, not a number: write '8' in quotes"),
    ),
    # as upstream/10
    "users/14-gke-rayjob-tpu-multihost": (
        Sum({"head": 1, "tpu-group": 4, "submitter": 1}, "104.5", "840209715200", {TPU: "16"}),
    ),
    # 4 of at most 5: 2 + 4 x 4 + 0.5; 4Gi + 4 x 8Gi + 200Mi; disk 5 x 9Gi
    "users/15-gke-rayjob-mnist": (
        Sum(
            {"head": 1, "small-group": 4, "submitter": 1},
            "18.5",
            "37064Mi",
            {"ephemeral-storage": "45Gi"},
        ),
    ),
    # all groups at zero: head 1 + 0.5, submitter 0.5; 4096 + 512 + 200
    "users/17-gke-rayjob-elastic-three-flavors": (
        Sum(
            {
                "head": 1,
                "worker-group-reservation": 0,
                "worker-group-dws-flex": 0,
                "worker-group-spot": 0,
                "submitter": 1,
            },
            "2",
            "4808Mi",
        ),
    ),
    "users/18-gke-kueue-three-flavors": (),
    # 1 + 2 x 2 + 0.5; 3 x 8G + 200Mi
    "users/19-llmgke-rayjob-dws-l4": (
        Sum({"head": 1, "gpu-group": 2, "submitter": 1}, "5.5", "24209715200", {GPU: "2"}),
    ),
    "users/20-llmgke-dws-queues-duplicate-resource": (),
    # 1 + 2 x 100 + 0.5; 5G + 2 x 600Gi + 200Mi = 5000000000 + 1288490188800 + 209715200; 2 x 8
    "users/21-llmgke-rayjob-a3ultra": (
        Sum({"head": 1, "gpu-group": 2, "submitter": 1}, "201.5", "1293699904000", {GPU: "16"}),
    ),
    # requests, not the higher limits: 1 + 2 x 3; 5G + 2 x 5G
    "users/23-codeflare-raycluster-kueue": (
        Sum({"head": 1, "small-group-unit-test-cluster-kueue": 2}, "7", "15G"),
    ),
    # 11 x 4; 11 x 12G; one GPU each, two of Intel's on the head
    "users/24-codeflare-raycluster-all-params": (
        Sum(
            {"head": 1, "small-group-test-all-params": 10},
            "44",
            "132G",
            {GPU: "11", "intel.com/gpu": "2"},
        ),
    ),
    "users/25-awslabs-rayjob-cluster-selector": (_SUBMITTER,),
    # 6 + 2 x 120; 30Gi + 2 x 440Gi; 2 x 16; 2 x 8
    "users/26-awslabs-raycluster-trn1": (
        Sum(
            {"head": 1, "workergroup": 2},
            "246",
            "910Gi",
            {"aws.amazon.com/neuron": "32", "vpc.amazonaws.com/efa": "16"},
        ),
    ),
    # 2 + 4 x 2; 4G + 4 x 8G; the head's zero GPUs are none
    "users/27-odh-raycluster-dreambooth": (
        Sum({"head": 1, "small-group-stable-diffusion": 4}, "10", "36G", {GPU: "4"}),
    ),
    "users/28-odh-cq-two-gpu-flavors": (),
    # HTTPMode: no submitter. 48 + 64 x 120; 200Gi + 64 x 850Gi; 64 x 4
    "users/29-nemo-rayjob-64-nodes": (
        Sum(
            {"head": 1, "segment-0": 16, "segment-1": 16, "segment-2": 16, "segment-3": 16},
            "7728",
            "54600Gi",
            {GPU: "256"},
        ),
    ),
    # the head has a second container, 50m and 64Mi: 1.05 + 2; 4160 + 8192
    "users/30-nemo-two-gangs": (
        Sum({"head": 1, "gpu-workers": 1}, "3.05", "12352Mi", {GPU: "2"}),
        Sum({"head": 1}, "1.05", "4160Mi"),
    ),
    "users/32-rhoai-rayjob-existing": (_SUBMITTER,),
    # eight bytes each
    "users/34-kueuebench-job-8-bytes": (Sum({"main": 2}, "4", "16"),),
    # 1 + 0.5; 1024 + 200
    "users/36-kaiwo-rayjob-amd-head": (
        Sum({"head": 1, "submitter": 1}, "1.5", "1224Mi", {"amd.com/gpu": "1"}),
    ),
    "users/38-kaiwo-job-victim": (refused("'($node_gpus)' is not a quantity"),),
}

MENDED: Mapping[str, tuple[Mapping[str, str], tuple[Sum | Refused, ...]]] = {
    # with the placeholder filled in: head 2 + 0.5, 4 workers x 8, submitter 0.5;
    # 4096 + 512 + 4 x 16384 + 200; 4 x 4
    "users/07-gke-rayjob-tpu-dws": (
        {"${JOB_ID}": "7"},
        (Sum({"head": 1, "tpu-group": 4, "submitter": 1}, "35", "70344Mi", {TPU: "16"}),),
    ),
    # 2 replicas of 4 hosts: 8 + 8 x 8; 16Gi + 8 x 200G = 17179869184 + 1600000000000; 8 x 4
    "users/09-gke-raycluster-maxtext-multislice": (
        {"${KSA_NAME}": "trainer"},
        (Sum({"head": 1, "tpu-group": 8}, "72", "1617179869184", {TPU: "32"}),),
    ),
    # the number in quotes and the placeholders filled in: 12 + 2 x 220;
    # 32G + 2 x 2800Gi = 32000000000 + 6012954214400; 2 x 8; disk 9Gi + 2 x 1000Gi
    "users/10-gke-raycluster-verl-b200": (
        {
            "${KSA_NAME}": "trainer",
            "${GPU_TYPE}": "b200",
            "gke-accelerator-count: 8": 'gke-accelerator-count: "8"',
        },
        (
            Sum(
                {"head": 1, "gpu-group": 2},
                "452",
                "6044954214400",
                {GPU: "16", "ephemeral-storage": "2009Gi"},
            ),
        ),
    ),
    # without the quantity that is none, and with the fraction in quotes, which custom resources
    # need: 1 + (1 + 1 + 1.5 + 0.1 + 1 + 2 + 2 + 1 + 1) + 0.5, where
    # 0.1 is raised to the wait's 0.2; memory of the workers 8, 5G, 5Gi, 1.5Gi, 1e9, 128974848,
    # 100m, 0.5Ti and 1Gi, where those below 256Mi (8, 128974848 and 100m) ask for 256Mi while they
    # wait: 2147483648 + 3 x 268435456 + 5000000000 + 5368709120 + 1610612736 + 1000000000
    # + 549755813888 + 1073741824 + 209715200. Kueue does not see the wait: 8 + 128974848 + 0.1
    # instead of the 3 x 268435456
    "odd/18-memory-units": (
        {"1Gb": "1Gi", "cpu: 1.5": "cpu: '1.5'"},
        (
            Sum(
                {"head": 1, **{f"m{i}": 1 for i in range(9)}, "submitter": 1},
                "12.2",
                "566971382784",
                counted={"cpu": "12.1", "memory": "566295051272100m"},
            ),
        ),
    ),
}
