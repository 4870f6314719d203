#include "agent/job_coord.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "coord/membership.h"

namespace trireme {
namespace {

constexpr double kCallS = 5.0;
constexpr auto kLookForAgentsEvery = std::chrono::milliseconds(100);
// A lease ends at most this many times its length after its last renewal.
constexpr double kLeasesToWait = 3.0;

const CoordEntry* find(const std::vector<CoordEntry>& entries, std::string_view key) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const CoordEntry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

// Waits until no agent uses the Coord any more.
Result<std::vector<CoordEntry>> wait_until_free(Coord& coord, const JobTerms& terms) {
  const Deadline deadline = Deadline::after(kLeasesToWait * terms.lease_s);
  while (true) {
    TRIREME_TRY(entries, coord.list("", Deadline::after(kCallS)));
    const auto used = std::find_if(entries.begin(), entries.end(), [](const CoordEntry& entry) {
      return entry.key.starts_with(kAgentPrefix);
    });
    if (used == entries.end()) return entries;
    if (deadline.left_ms() == 0) {
      return usage(fmt::format(
          "{} is in use by a running job: {} renews its lease there; stop that job (trireme stop), "
          "or choose another folder",
          coord.name(), used->key));
    }
    std::this_thread::sleep_for(kLookForAgentsEvery);
  }
}

// The members of the former launch have ended, so the first epoch needs no answer of theirs.
Result<std::string> new_record(const CoordEntry* former, double lease_s) {
  MembershipRecord record{.lease_s = lease_s, .claimed_by = "a new launch"};
  if (former != nullptr) {
    TRIREME_TRY(known, parse_record(former->value));
    record.claimed_epoch = known.claimed_epoch;
  }
  return record_text(record);
}

Status put(Coord& coord, const std::vector<CoordEntry>& entries, const std::string& key,
           std::optional<std::string> value) {
  const CoordEntry* const former = find(entries, key);
  if (former == nullptr && !value) return Done{};
  const CoordWrite write{.key = key,
                         .value = std::move(value),
                         .expected_version = former == nullptr ? 0 : former->version};
  TRIREME_TRY(swap, coord.compare_and_swap(write, Deadline::after(kCallS)));
  if (swap.is_written) return Done{};
  return usage(fmt::format("{}: another launch uses it at the same time", coord.name()));
}

}  // namespace

Status take_coord(Coord& coord, const JobTerms& terms) {
  TRIREME_TRY(entries, wait_until_free(coord, terms));
  const std::string record_key(kRecordKey);
  TRIREME_TRY(record, new_record(find(entries, record_key), terms.lease_s));
  TRIREME_TRY_DONE(put(coord, entries, kJobKey, terms.job));
  TRIREME_TRY_DONE(put(coord, entries, kEndKey, std::nullopt));
  return put(coord, entries, record_key, record);
}

std::optional<Result<RanksEnd>> end_in(const std::vector<CoordEntry>& entries,
                                       const JobTerms& terms) {
  const CoordEntry* const job = find(entries, kJobKey);
  if (job != nullptr && job->value != terms.job) {
    return usage("another launch has taken the Coord of this job, so this agent ends");
  }
  if (const CoordEntry* const end = find(entries, kEndKey)) return check_end(end->value);
  return std::nullopt;
}

}  // namespace trireme
