#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "watch/code_map.h"
#include "watch/host_counters.h"
#include "watch/rank_pages.h"
#include "watch/rank_sample.h"

namespace trireme {

// A rank process of which evidence is collected.
struct EvidenceRank {
  int rank = -1;
  int pid = -1;
  bool is_alive = true;
  bool is_stopped = false;                 // it cannot answer a signal
  std::shared_ptr<SharedRankPages> pages;  // shared by all who may read them after its end
  std::shared_ptr<const CodeMap> code;     // null: unknown
};

// A part of the report.
struct EvidenceSection {
  std::string title;
  std::string text;
};

// What was known about the ranks of a host, and about the host, when a failure was noticed.
struct HostEvidence {
  struct Rank {
    EvidenceRank who;
    RankSample sample;
    std::vector<ThreadStack> stacks;
    std::vector<EvidenceSection> sections;  // of /proc/PID
  };
  std::vector<Rank> ranks;
  std::vector<EvidenceSection> host;
  HostCounters before, after;
  std::vector<std::string> kernel_lines;
  double took_s = 0.0;
};

// Collects what takes no longer than `most_s` in all: the stacks of all threads, /proc of the ranks
// and of the host. A stopped rank is described by /proc alone. The counters and the lines of the
// kernel are left to the caller.
HostEvidence collect_evidence(std::span<const EvidenceRank> ranks, double most_s);

// Writes index.html, for people, and evidence.json into the folder, which is made. Each file
// appears as a whole and has at most about a megabyte. `failure` is the JSON object of the failure.
Status write_evidence(const HostEvidence& evidence, const std::string& failure,
                      const std::string& folder);

}  // namespace trireme
