#include "failures/classify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/failure_rules_file.h"

namespace trireme {
namespace {

// What was injected, and the class that it must get: the right one or, where the evidence cannot
// tell, unknown. The words are those that ranks of this program have left, with their folders
// shortened; the lines of the kernel are those of Linux and of NVIDIA's driver.
struct Injected {
  const char* name;
  FailureEvidence evidence;
  FailureClass expected;
  bool may_be_unknown = false;
};

FailureEvidence says(std::string words, int exit_code) {
  return {.kind = "failed", .exit_code = exit_code, .last_words = std::move(words)};
}
FailureEvidence dies(int signal) {
  const bool is_killed = signal == 9 || signal == 15 || signal == 2;
  return {.kind = is_killed ? "killed" : "crashed",
          .signal = signal,
          .last_words = "rank 1 has died: it was killed by signal"};
}
FailureEvidence with_kernel(FailureEvidence evidence, std::string line) {
  evidence.kernel_lines = {"usb 1-1: new device", std::move(line)};
  return evidence;
}

std::vector<Injected> injected() {
  using enum FailureClass;
  FailureEvidence oom = dies(9), hang{.kind = "hang"}, host{.kind = "host"}, lost{.kind = "lost"};
  oom.oom_kills = 1;
  FailureEvidence cut = host, edac = dies(11), nan = says("", 5), disk = says("", 5);
  cut.network_errors = 3;
  edac.memory_errors = 1;
  nan.nonfinite_steps = 32;
  disk.disk_errors = 4;
  const std::string waited =
      "rank 0: rank 0 waited 3.000 s, its deadline; who waits for whom:\n  rank 0 waits for rank 1 "
      "in all_gather(int64, 2 elements, shared), call 23 of group checkpoint, at "
      "../../src/train/run_save.cc:24, since 3.000 s\n";
  FailureEvidence congested = says(waited, 5), throttled = says(waited, 5);
  congested.network_errors = 20;
  throttled.throttled_ms = 2800;
  const std::string ended =
      "rank 0: rank 1 has died, or cannot be reached: its connection with rank "
      "0 (10.20.3.1:40312) has ended: ";
  return {
      {"NaN in data",
       says("rank 1: step 33: no gradient was finite for 32 steps: the run has diverged; lower "
            "optim.lr, lengthen optim.warmup_steps or set optim.clip_norm, and start again or "
            "resume from an earlier checkpoint",
            5),
       Numbers},
      {"NaN, by the counter", nan, Numbers},
      {"flipped bit in the state of a rank",
       says("rank 1: step 20: the state of the run is corrupt: exp_avg/layers.0.mlp.w1: rank 1 of "
            "ranks 0, 1, 2 is wrong; a memory, a computation or a message was wrong since the last "
            "check: resume from the newest checkpoint, before which all ranks agreed",
            5),
       Corruption},
      {"another model on resume",
       says("--set model.layers=2: model.layers = 2, but run/checkpoints/step-000020 holds the "
            "weights of a model with 1: keep it to resume, or train the other model with another "
            "--out",
            2),
       UserProgram},
      {"another optimizer on resume",
       says("--set optim.name=sgd: optim.name = \"sgd\" but run/checkpoints/step-000020 was "
            "written with \"adamw\": its state does not fit; keep the optimizer to resume",
            2),
       UserProgram},
      {"degree that does not divide",
       says("--set model.heads=3: model.heads = 3 must divide model.d_model = 64; change one of "
            "them, or set model.head_dim",
            2),
       UserProgram},
      {"out of memory, cgroup", oom, HostMemory},
      {"out of memory, kernel's log",
       with_kernel(dies(9),
                   "Memory cgroup out of memory: Killed process 4021 (trireme) "
                   "total-vm:812340kB, anon-rss:502112kB"),
       HostMemory},
      {"killed by hand", dies(9), Unknown, true},
      {"terminated by hand", dies(15), Unknown, true},
      {"out of memory, mmap", says("the host cannot allocate 262.5 MiB of memory", 5), HostMemory},
      {"out of memory, new",
       says("out of memory; lower memory.limit_bytes or the batch size, or end other programs", 5),
       HostMemory},
      {"plan that does not fit",
       says("the plan (1 ranks, the largest of 201.5 GiB) needs 201.5 GiB but 80.0 GiB is "
            "available: the peak is at action BW0 (BW both gradients, 3 micro-batch 3), 34 of 83",
            3),
       HostMemory},
      {"segmentation fault", dies(11), UserProgram},
      {"abort", dies(6), UserProgram},
      {"division by zero", dies(8), UserProgram},
      {"bus error", dies(7), Unknown, true},
      {"segmentation fault on a host with errors of memory", edac, HostMemory},
      {"defect of the program",
       says("a defect of Trireme: ../../src/device/arena.cc:70: offset + bytes <= size", 5),
       UserProgram},
      {"full disk",
       says("rank 1: run/checkpoints/step-000040.tmp-386/shard-00000-000.safetensors.tmp-386: "
            "cannot write: No space left on device",
            4),
       DiskFull},
      {"quota", says("run/metrics.jsonl: cannot write: Disk quota exceeded", 4), DiskFull},
      {"EIO of a write",
       says("run/checkpoints/step-000020.tmp-2544/shard-00000-000.safetensors.tmp-2544: cannot "
            "write: Input/output error",
            4),
       FileSystem},
      {"EIO of a sync", says("run/config.resolved.toml.tmp-25: cannot sync: Input/output error", 4),
       FileSystem},
      {"EIO of a read", says("data/train.tok: cannot read at byte 0: Input/output error", 4),
       FileSystem},
      {"read-only file system", says("run/.lock: cannot write: Read-only file system", 4),
       FileSystem},
      {"disk with errors, by the counter", disk, FileSystem},
      {"disk with errors, by the kernel",
       with_kernel(dies(7), "blk_update_request: I/O error, dev sda, sector 8390016"), FileSystem},
      {"wrong checksum",
       says("run/checkpoints/step-000010/shard-00000-000.safetensors: the header does not match "
            "its checksum in the index",
            4),
       FileSystem},
      {"every checkpoint damaged",
       says("--resume auto: no checkpoint in run/checkpoints is intact; move the folder away, or "
            "start afresh with another --out",
            4),
       FileSystem},
      {"cut token file", says("bad.tok: the file has 7 bytes, a token file's header 64", 4),
       FileSystem},
      {"bit flip between copy and write",
       says("the copy of layers.0.w in memory has changed since it was made (checksum 1 and 2)", 4),
       HostMemory},
      {"host gone", host, HostGone},
      {"unplugged link", cut, NetworkLink},
      {"unplugged link, by the kernel",
       with_kernel(host, "mlx5_core 0000:41:00.0 eth0: Link is Down"), NetworkLink},
      {"unreachable", says(ended + "No route to host", 5), NetworkLink},
      {"reset", says(ended + "Connection reset by peer", 5), NetworkLink},
      {"link without traffic", says(ended + "Connection timed out", 5), NetworkTimeout},
      {"peer has closed", says(ended + "it has closed the connection", 5), Unknown, true},
      {"nobody has died", lost, Unknown, true},
      {"stopped process", hang, Hang},
      {"stopped process, as its peer says",
       says(waited +
                "  rank 1 does not answer: its calling thread has been in one place for 3.010 s",
            5),
       Hang},
      {"deadlock", says(waited + "  rank 1 waits for nobody: it computes or hangs", 5), Hang},
      {"deadline without a reason", says(waited, 5), Unknown, true},
      {"deadline, 100 Mbit link with drops", congested, NetworkTimeout},
      {"slow core", throttled, Slow},
      {"device lost",
       with_kernel(says("CUDA error: unknown error", 5),
                   "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."),
       DeviceLost},
      {"device memory",
       with_kernel(says("CUDA error", 5), "NVRM: Xid (PCI:0000:41:00): 48, Double Bit ECC Error"),
       DeviceMemory},
      {"device link",
       with_kernel(says("CUDA error", 5),
                   "NVRM: Xid (PCI:0000:41:00): 74, NVLink: fatal error detected on link 3"),
       DeviceLink},
      {"memory of the host",
       with_kernel(dies(7), "mce: [Hardware Error]: Uncorrected memory error in page 0x1fa3"),
       HostMemory},
      {"clock jump", says("rank 1: 3 lines are out of order", 5), Unknown, true},
  };
}

// What the evidence can tell is classified right, all else is unknown, and nothing is wrong.
TEST(Classify, NamesWhatWasInjectedOrSaysThatItDoesNotKnow) {
  const FailureRules rules = built_in_failure_rules();
  int right = 0, unknown = 0, tellable = 0;
  for (const Injected& one : injected()) {
    const Classification found = classify(one.evidence, rules);
    const bool is_unknown = found.failure_class == FailureClass::Unknown;
    EXPECT_TRUE(found.failure_class == one.expected || is_unknown)
        << one.name << " was taken for " << name_of(found.failure_class) << " by " << found.rule;
    EXPECT_FALSE(found.remedy.empty()) << one.name;
    if (one.may_be_unknown) {
      EXPECT_TRUE(is_unknown) << one.name;
      ++unknown;
      continue;
    }
    ++tellable;
    right += found.failure_class == one.expected ? 1 : 0;
    EXPECT_GT(found.confidence, 0.5) << one.name;
    EXPECT_FALSE(found.evidence.empty()) << one.name;
  }
  EXPECT_EQ(right, tellable);
  EXPECT_LE(unknown, 0.15 * (tellable + unknown));  // a table of riddles would prove nothing
}

// Words that say nothing about a cause are unknown, whatever the process ended with.
TEST(Classify, SaysUnknownWithoutEvidence) {
  const FailureRules rules = built_in_failure_rules();
  for (const char* kind : {"", "killed", "crashed", "failed", "lost"}) {
    for (const char* words : {"", "it went wrong", "rank 3 has died"}) {
      const FailureEvidence evidence{.kind = kind, .exit_code = 5, .last_words = words};
      EXPECT_EQ(classify(evidence, rules).failure_class, FailureClass::Unknown) << kind << words;
    }
  }
}

// Two rules that are believed alike and disagree give no class.
TEST(Classify, RulesThatDisagreeGiveNoClass) {
  FailureEvidence evidence{
      .kind = "failed", .exit_code = 4, .last_words = "cannot write: No space left on device"};
  const FailureRules rules = built_in_failure_rules();
  EXPECT_EQ(classify(evidence, rules).failure_class, FailureClass::DiskFull);
  evidence.last_words += "\ncannot sync: Input/output error";
  EXPECT_EQ(classify(evidence, rules).failure_class, FailureClass::Unknown);
}

// Every class but unknown can come out, and has causes and a remedy.
TEST(Classify, EveryClassHasARuleAndAdvice) {
  const FailureRules rules = built_in_failure_rules();
  for (size_t i = 0; i < std::size(kFailureClassNames); ++i) {
    const auto failure_class = static_cast<FailureClass>(i);
    const ClassAdvice& advice = rules.advice_of(failure_class);
    for (const std::string& text : {advice.user, advice.system, advice.hardware, advice.remedy}) {
      EXPECT_FALSE(text.empty()) << name_of(failure_class);
    }
    const bool has_rule =
        std::any_of(rules.rules.begin(), rules.rules.end(),
                    [&](const FailureRule& rule) { return rule.failure_class == failure_class; });
    EXPECT_EQ(has_rule, failure_class != FailureClass::Unknown) << name_of(failure_class);
  }
}

}  // namespace
}  // namespace trireme
