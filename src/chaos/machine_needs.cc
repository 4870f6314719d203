#include "chaos/machine_needs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "chaos/child_job.h"
#include "chaos/small_disk.h"

namespace trireme {
namespace {

constexpr int64_t kTriedBytes = 65536;

// Returns what is missing to make hosts whose network can be cut, or "".
std::string missing_for_partition() {
  if (::geteuid() != 0) {
    return fmt::format(
        "hosts are made as network namespaces, which needs root, and you are user {}; run it as "
        "root",
        ::geteuid());
  }
  if (!succeeds({"ip", "-V"})) {
    return "hosts are made as network namespaces, which needs the program ip; install iproute2";
  }
  if (succeeds({"unshare", "-n", "true"})) return "";
  return "the kernel makes no network namespace here (unshare -n fails); use a machine that does";
}

// Returns what is missing to make a small disk, or "".
std::string missing_for_disk() {
  if (::geteuid() != 0) {
    return fmt::format(
        "the checkpoints lie on a tmpfs of a limited size, which needs root, and you are user {}; "
        "run it as root",
        ::geteuid());
  }
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("trireme-disk-{}", ::getpid()))
          .string();
  std::string missing;
  if (const auto disk = SmallDisk::make(folder, kTriedBytes); !disk.ok()) {
    missing = disk.error().message + "; use a machine on which root may mount";
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return missing;
}

std::string missing_for_flip(const JobFacts& job) {
  if (!job.saves_to_disk && !job.saves_to_memory) {
    return "it changes a checkpoint, and the run saves only at its end; set checkpoint.every";
  }
  if (job.saves_to_memory || job.kept == 0 || job.kept >= 2) return "";
  return "it damages the newest checkpoint, and no other one is kept; set checkpoint.keep = 2";
}

// Returns what is missing for this kind of faults, or "".
std::string missing_for(FaultKind kind, const JobFacts& job) {
  switch (kind) {
    case FaultKind::Kill:
    case FaultKind::Stop:
    case FaultKind::Agent:
      return "";
    case FaultKind::Point:
      if (job.num_ranks >= 2) return "";
      return "a rank that dies at a point must have others beside it; set --ranks 2";
    case FaultKind::Partition:
      if (job.may_move) return missing_for_partition();
      return "ranks move to other hosts, which changes last bits; set run.reproducible = "
             "\"layout\"";
    case FaultKind::Disk:
      if (job.saves_to_disk) return missing_for_disk();
      return "the run saves only at its end; set checkpoint.every";
    case FaultKind::Flip:
      return missing_for_flip(job);
  }
  return "";
}

}  // namespace

Status check_faults(const std::vector<FaultKind>& kinds, const JobFacts& job) {
  std::string problems;
  const bool has_hosts = std::find(kinds.begin(), kinds.end(), FaultKind::Partition) != kinds.end();
  for (const FaultKind kind : kinds) {
    const bool is_loss_of_host = kind == FaultKind::Agent && has_hosts;
    const std::string missing = is_loss_of_host ? "with partition, the job has several hosts, and "
                                                  "the loss of an agent is that of its host"
                                                : missing_for(kind, job);
    if (missing.empty()) continue;
    problems += fmt::format("{}--faults {}: {}, or leave {} out", problems.empty() ? "" : "\n",
                            name_of(kind), missing, name_of(kind));
  }
  if (problems.empty()) return Done{};
  return usage(problems);
}

namespace {

bool is_of_memory(CrashPoint point) {
  return point >= CrashPoint::BeforeUpdate && point <= CrashPoint::MemoryCommitted;
}

bool is_of_disk(CrashPoint point) {
  return point >= CrashPoint::DiskBegun && point <= CrashPoint::DiskCommitted;
}

}  // namespace

std::vector<CrashPoint> crash_points_of(const JobFacts& job) {
  std::vector<CrashPoint> points;
  for (auto number = uint32_t(CrashPoint::Compile); number < kNumCrashPoints; ++number) {
    const auto point = static_cast<CrashPoint>(number);
    if (is_of_end(point) || !check_points({point}, job).ok()) continue;
    points.push_back(point);
  }
  points.push_back(CrashPoint::Leave);
  return points;
}

Status check_points(const std::vector<CrashPoint>& points, const JobFacts& job) {
  for (const CrashPoint point : points) {
    const char* const key = is_of_memory(point) && !job.saves_to_memory ? "checkpoint.memory_every"
                            : is_of_disk(point) && !job.saves_to_disk   ? "checkpoint.every"
                                                                        : nullptr;
    if (key == nullptr) continue;
    return usage(
        fmt::format("--points {}: no rank comes there, because the run saves no such "
                    "checkpoints; set {}, or leave it out",
                    name_of(point), key));
  }
  return Done{};
}

}  // namespace trireme
