#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "failures/failure_class.h"
#include "failures/text_pattern.h"

namespace trireme {

// Which texts of the evidence a pattern is looked for in. Rank: its last words. Peers: the words of
// the ranks that waited for it. Kernel: its log.
enum class EvidenceText : uint8_t { Rank, Peers, Kernel };
inline constexpr std::string_view kEvidenceTextNames[] = {"rank", "peers", "kernel"};

// A number of the evidence that a rule may want to be above 0.
enum class EvidenceCounter : uint8_t {
  None,
  OomKills,
  DiskErrors,
  NetworkErrors,
  MemoryErrors,
  DeviceErrors,
  ThrottledMs,
  NonfiniteSteps,
};
inline constexpr std::string_view kEvidenceCounterNames[] = {"",
                                                             "oom_kills",
                                                             "disk_errors",
                                                             "network_errors",
                                                             "memory_errors",
                                                             "device_errors",
                                                             "throttled_ms",
                                                             "nonfinite_steps"};

// If all conditions that a rule states hold, the failure is of its class with this confidence.
struct FailureRule {
  std::string name;
  FailureClass failure_class = FailureClass::Unknown;
  double confidence = 0.9;

  TextPattern pattern;  // empty: no text is looked for
  EvidenceText in = EvidenceText::Rank;
  std::string kind;        // "": any
  int64_t signal = 0;      // 0: any
  int64_t exit_code = -1;  // -1: any
  EvidenceCounter counter = EvidenceCounter::None;

  std::string remedy;  // "": that of the class
  std::string where;   // file and line
};

// What a person should know about a class: what usually causes it, by the part that is at fault,
// and what to do.
struct ClassAdvice {
  std::string user, system, hardware;
  std::string remedy;
};

// A failure_rules.toml (docs/formats/failure_rules.md).
struct FailureRules {
  std::vector<FailureRule> rules;  // in the order of the file; an earlier one wins a tie
  std::array<ClassAdvice, std::size(kFailureClassNames)> advice;

  const ClassAdvice& advice_of(FailureClass failure_class) const {
    return advice[static_cast<uint8_t>(failure_class)];
  }
};

}  // namespace trireme
