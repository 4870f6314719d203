#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "failures/failure_evidence.h"

namespace trireme {

// The texts of evidence may be long. In a line of metrics.jsonl only the last ones have room.
struct EvidenceLimits {
  size_t texts = 4;    // of the kernel, and of peers
  size_t bytes = 240;  // of each text
};

// The fields of evidence as members of a JSON object. Fields that nobody has observed are left out.
// The last words are not among them, because they stand in `cause`.
nlohmann::ordered_json evidence_json(const FailureEvidence& evidence,
                                     const EvidenceLimits& limits = {});
// Reads them back, without the last words. Throws nlohmann::json::exception if a key has another
// type.
FailureEvidence evidence_in(const nlohmann::json& object);

// Returns what a check for silent corruption has found as a JSON object: `check`, `step`, `ranks`
// (a list of `rank` and `host`), `certain`, and `clean_step` if it is known. Of many ranks only
// some are listed, but of each host at least one, as far as there is room.
nlohmann::ordered_json corruption_json(const CorruptionAlarm& alarm);
// "rank 1 on host b computed or held wrong numbers, as the check replay_elsewhere has found".
std::string corruption_text(const CorruptionAlarm& alarm);

// Returns the samples on which the rank worked as text, such as "samples 28 to 31", or "" if there
// are none.
std::string samples_text(const FailureEvidence& evidence);

// Evidence as a sentence without an end: "signal 9, in phase step, action 3, oom_kills 1".
std::string evidence_text(const FailureEvidence& evidence);

}  // namespace trireme
