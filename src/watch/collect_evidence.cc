#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "watch/host_evidence.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostSectionBytes = 32 << 10;
constexpr int64_t kStackShare = 2;  // of the time, at most the half is for stacks
constexpr auto kStackLook = std::chrono::milliseconds(1);
constexpr const char* kOfProcess[] = {"status", "io", "wchan", "oom_score", "cgroup"};
constexpr const char* kOfThread[] = {"comm", "wchan", "syscall", "stack"};
constexpr const char* kOfHost[] = {
    "/proc/loadavg",         "/proc/meminfo",     "/proc/pressure/cpu",
    "/proc/pressure/memory", "/proc/pressure/io", "/proc/net/dev",
    "/proc/diskstats",       "/proc/mounts",      "/sys/fs/cgroup/memory.events"};

// Files of /proc have no size, so only so much of them is read.
std::string head_of(const std::string& path) {
  std::ifstream file(path);
  std::string text(kMostSectionBytes, '\0');
  file.read(text.data(), std::ssize(text));
  text.resize(size_t(file.gcount()));
  return text;
}

EvidenceSection threads_of(const std::string& process, int64_t deadline_ns) {
  EvidenceSection section{"threads, by /proc", ""};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process + "/task", error)) {
    if (monotonic_ns() > deadline_ns || section.text.size() > kMostSectionBytes) break;
    section.text += "thread " + entry.path().filename().string() + "\n";
    for (const char* name : kOfThread) {
      std::string text = head_of(entry.path().string() + "/" + name);
      while (!text.empty() && text.back() == '\n') text.pop_back();
      if (!text.empty()) section.text += fmt::format("  {}: {}\n", name, text);
    }
  }
  return section;
}

}  // namespace

HostEvidence collect_evidence(std::span<const EvidenceRank> ranks, double most_s) {
  const int64_t begin_ns = monotonic_ns(), most_ns = std::llround(most_s * 1e9);
  HostEvidence evidence;
  size_t num_asked = 0;
  for (const EvidenceRank& rank : ranks) {
    if (rank.is_alive && !rank.is_stopped) {
      (*rank.pages)->stacks.num_taken.store(0);
      for (StackPage::Slot& slot : (*rank.pages)->stacks.slots) slot.num_frames.store(0);
      num_asked += size_t(ask_for_stacks(rank.pid, (*rank.pages)->stacks));
    }
    evidence.ranks.push_back({rank, RankSample::of(**rank.pages), {}, {}});
  }
  for (const char* path : kOfHost) {
    if (monotonic_ns() > begin_ns + most_ns) break;
    std::string text = head_of(path);
    if (!text.empty()) evidence.host.push_back({path, std::move(text)});
  }
  for (HostEvidence::Rank& rank : evidence.ranks) {
    const std::string process = fmt::format("/proc/{}", rank.who.pid);
    if (!rank.who.is_alive) continue;
    for (const char* name : kOfProcess) {
      if (monotonic_ns() > begin_ns + most_ns) break;
      std::string text = head_of(process + "/" + name);
      if (!text.empty()) rank.sections.push_back({name, std::move(text)});
    }
    rank.sections.push_back(threads_of(process, begin_ns + most_ns));
  }
  while (true) {
    size_t num_taken = 0;
    for (HostEvidence::Rank& rank : evidence.ranks) {
      rank.stacks = stacks_in((*rank.who.pages)->stacks);
      num_taken += rank.stacks.size();
    }
    if (num_taken >= num_asked || monotonic_ns() > begin_ns + most_ns / kStackShare) break;
    std::this_thread::sleep_for(kStackLook);
  }
  evidence.took_s = double(monotonic_ns() - begin_ns) * 1e-9;
  return evidence;
}

}  // namespace trireme
