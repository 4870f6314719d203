#include "agent/agent_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bounded_json.h"
#include "base/json_text.h"
#include "failures/evidence_json.h"

namespace trireme {
namespace {

Error wrong(const std::string& what) {
  return damaged(fmt::format("a message between the agents of a job is damaged: {}", what));
}

// Throws unless the value is an integer: a floating-point number may not fit into an int64_t.
int64_t integer_in(const nlohmann::json& object, const char* key) {
  return object.at(key).get_ref<const nlohmann::json::number_integer_t&>();
}

Result<int> number_of(const nlohmann::json& object, const char* key, int64_t least, int64_t most) {
  const auto number = integer_in(object, key);
  if (number >= least && number <= most) return int(number);
  return wrong(fmt::format("{} = {} is impossible", key, number));
}

template <typename T>
Result<T> copy_of(std::span<const std::byte> bytes, const char* what) {
  if (bytes.size() != sizeof(T)) {
    return wrong(fmt::format("{} has {} bytes instead of {}", what, bytes.size(), sizeof(T)));
  }
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Bytes that a body of this kind must have; nullopt: any number up to kMostAgentBody.
std::optional<uint32_t> body_bytes_of(AgentMessageKind kind) {
  switch (kind) {
    case AgentMessageKind::Join:
    case AgentMessageKind::Host:
    case AgentMessageKind::Ended:
    case AgentMessageKind::Terms:
    case AgentMessageKind::Start:
    case AgentMessageKind::Failure:
    case AgentMessageKind::Bye:
    case AgentMessageKind::StatusPiece:
    case AgentMessageKind::Unreached:
    case AgentMessageKind::HandOver:
    case AgentMessageKind::Watched:
    case AgentMessageKind::Blame:
      return std::nullopt;
    case AgentMessageKind::Living:
      return uint32_t(sizeof(LivingProcess));
    case AgentMessageKind::Membership:
      return uint32_t(sizeof(MembershipWords));
    case AgentMessageKind::Report:
      return uint32_t(sizeof(RankReport));
    case AgentMessageKind::Order:
      return uint32_t(sizeof(EpochOrder));
    case AgentMessageKind::Page:
      return uint32_t(sizeof(PageValues));
    default:
      return 0;
  }
}

}  // namespace

Result<AgentMessage> check_agent_message(std::span<const std::byte> bytes) {
  TRIREME_TRY(message, copy_of<AgentMessage>(bytes, "a message"));
  if (message.magic != AgentMessage{}.magic) return wrong("it does not begin as a message");
  if (message.kind > kLastAgentMessageKind) return wrong("its kind is unknown");
  const std::optional<uint32_t> needed = body_bytes_of(message.kind);
  if (message.body_bytes > kMostAgentBody || (needed && message.body_bytes != *needed)) {
    return wrong(fmt::format("a body of kind {} cannot have {} bytes", uint32_t(message.kind),
                             message.body_bytes));
  }
  return message;
}

std::string to_json(const JobTerms& terms) {
  auto hosts = nlohmann::json::array();
  for (const NamedHost& host : terms.hosts) {
    hosts.push_back({{"name", host.name}, {"slots", host.slots}, {"domain", host.domain}});
  }
  return json_text(nlohmann::json{{"job", terms.job},
                                  {"coord", terms.coord},
                                  {"coord_keys", terms.coord_keys},
                                  {"lease_s", terms.lease_s},
                                  {"command", terms.command},
                                  {"folder", terms.folder},
                                  {"run_dir", terms.run_dir},
                                  {"ranks", terms.ranks},
                                  {"layouts", terms.layouts},
                                  {"max_restarts", terms.max_restarts},
                                  {"leaves_lost_out", terms.leaves_lost_out},
                                  {"skips_bad_batches", terms.skips_bad_batches},
                                  {"start_timeout_s", terms.start_timeout_s},
                                  {"num_agents", terms.num_agents},
                                  {"hosts", std::move(hosts)},
                                  {"usual_slots", terms.usual_slots}});
}

Result<JobTerms> check_terms(const std::string& text) {
  TRIREME_TRY(json, parse_bounded_json(text));
  try {
    JobTerms terms{.job = json.at("job").get<std::string>(),
                   .coord = json.at("coord").get<std::string>(),
                   .coord_keys = json.at("coord_keys").get<std::string>(),
                   .lease_s = json.at("lease_s").get<double>(),
                   .command = json.at("command").get<std::vector<std::string>>(),
                   .folder = json.at("folder").get<std::string>(),
                   .run_dir = json.at("run_dir").get<std::string>(),
                   .layouts = json.at("layouts").get<std::string>(),
                   .leaves_lost_out = json.at("leaves_lost_out").get<bool>(),
                   .skips_bad_batches = json.at("skips_bad_batches").get<bool>(),
                   .start_timeout_s = json.at("start_timeout_s").get<double>()};
    TRIREME_TRY(ranks, number_of(json, "ranks", 1, kLargestTcpWorld));
    TRIREME_TRY(max_restarts, number_of(json, "max_restarts", 0, INT32_MAX));
    TRIREME_TRY(num_agents, number_of(json, "num_agents", 1, kLargestTcpWorld));
    TRIREME_TRY(usual_slots, number_of(json, "usual_slots", 1, kLargestTcpWorld));
    terms.ranks = ranks;
    terms.max_restarts = max_restarts;
    terms.num_agents = num_agents;
    terms.usual_slots = usual_slots;
    for (const auto& host : json.at("hosts")) {
      TRIREME_TRY(slots, number_of(host, "slots", 0, kLargestTcpWorld));
      terms.hosts.push_back({.name = host.at("name").get<std::string>(),
                             .slots = slots,
                             .domain = host.at("domain").get<std::string>()});
    }
    if (terms.command.empty()) return wrong("the command of the ranks is empty");
    const bool are_times_possible = terms.lease_s >= kShortestLeaseS &&
                                    terms.lease_s <= kLongestLeaseS && terms.start_timeout_s > 0;
    if (!are_times_possible) return wrong("the terms of a job have impossible times");
    return terms;
  } catch (const nlohmann::json::exception& error) {
    return wrong(json_problem(error.what()));
  }
}

// The rank may have been killed while it wrote the message, so the text may be invalid UTF-8.
std::string to_json(const JobFailure& failure) {
  const Classification& found = failure.found;
  return lenient_json_text(nlohmann::json{{"rank", failure.rank},
                                          {"epoch", failure.epoch},
                                          {"step", failure.step},
                                          {"furthest_step", failure.furthest_step},
                                          {"detected_after_s", failure.detected_after_s},
                                          {"kind", failure.kind},
                                          {"what", failure.what},
                                          {"host", failure.host},
                                          {"cause", failure.cause},
                                          {"exit_code", failure.exit_code},
                                          {"time_s", failure.time_s},
                                          {"evidence", evidence_json(failure.evidence)},
                                          {"left_out", failure.is_left_out},
                                          {"resumed_step", failure.resumed_step},
                                          {"older_step", failure.older_step},
                                          {"goes_back_to", failure.goes_back_to},
                                          {"why_back", failure.why_back},
                                          {"class", uint8_t(found.failure_class)},
                                          {"confidence", found.confidence},
                                          {"rule", found.rule}});
}

Result<JobFailure> check_failure(const std::string& text) {
  TRIREME_TRY(json, parse_bounded_json(text));
  try {
    TRIREME_TRY(rank, number_of(json, "rank", -1, kLargestTcpWorld));
    TRIREME_TRY(exit_code, number_of(json, "exit_code", 0, UINT8_MAX));
    const auto last_class = static_cast<int64_t>(FailureClass::Unknown);
    TRIREME_TRY(failure_class, number_of(json, "class", 0, last_class));
    return JobFailure{.rank = rank,
                      .epoch = uint64_t(integer_in(json, "epoch")),
                      .step = integer_in(json, "step"),
                      .furthest_step = integer_in(json, "furthest_step"),
                      .detected_after_s = json.at("detected_after_s").get<double>(),
                      .kind = json.at("kind").get<std::string>(),
                      .what = json.at("what").get<std::string>(),
                      .host = json.at("host").get<std::string>(),
                      .cause = json.at("cause").get<std::string>(),
                      .exit_code = exit_code,
                      .time_s = json.at("time_s").get<double>(),
                      .evidence = evidence_in(json.at("evidence")),
                      .is_left_out = json.at("left_out").get<bool>(),
                      .resumed_step = integer_in(json, "resumed_step"),
                      .older_step = integer_in(json, "older_step"),
                      .goes_back_to = integer_in(json, "goes_back_to"),
                      .why_back = json.at("why_back").get<std::string>(),
                      .found = {.failure_class = static_cast<FailureClass>(failure_class),
                                .confidence = json.at("confidence").get<double>(),
                                .rule = json.at("rule").get<std::string>()}};
  } catch (const nlohmann::json::exception& error) {
    return wrong(json_problem(error.what()));
  }
}

std::string to_json(const RanksEnd& end) {
  return lenient_json_text(
      nlohmann::json{{"exit_code", end.exit_code},
                     {"first_failed", end.first_failed},
                     {"why", end.why},
                     {"error_output", end.error_output.substr(0, kMostAgentBody / 8)},
                     {"why_no_restart", end.why_no_restart},
                     {"told_failures", end.told_failures}});
}

Result<RanksEnd> check_end(const std::string& text) {
  TRIREME_TRY(json, parse_bounded_json(text));
  try {
    TRIREME_TRY(exit_code, number_of(json, "exit_code", 0, UINT8_MAX));
    TRIREME_TRY(first_failed, number_of(json, "first_failed", -1, kLargestTcpWorld));
    return RanksEnd{.exit_code = exit_code,
                    .first_failed = first_failed,
                    .why = json.at("why").get<std::string>(),
                    .error_output = json.at("error_output").get<std::string>(),
                    .why_no_restart = json.at("why_no_restart").get<std::string>(),
                    .told_failures = integer_in(json, "told_failures"),
                    .is_told_here = false};
  } catch (const nlohmann::json::exception& error) {
    return wrong(json_problem(error.what()));
  }
}

std::string to_json(const StartPlace& start) {
  return json_text(nlohmann::json{{"rendezvous", start.place.rendezvous},
                                  {"epoch", start.place.epoch},
                                  {"rank", start.place.rank},
                                  {"size", start.place.size},
                                  {"ranks_on_host", start.ranks_on_host}});
}

Result<StartPlace> check_start(const std::string& text) {
  TRIREME_TRY(json, parse_bounded_json(text));
  try {
    StartPlace start;
    start.place.rendezvous = json.at("rendezvous").get<std::string>();
    start.place.epoch = uint64_t(integer_in(json, "epoch"));
    const auto rank = integer_in(json, "rank");
    const auto size = integer_in(json, "size");
    const auto on_host = integer_in(json, "ranks_on_host");
    if (size < 1 || size > kLargestTcpWorld || rank < 0 || rank >= size || on_host < 1 ||
        on_host > size || start.place.epoch < 1) {
      return wrong("a rank has no possible place");
    }
    start.place.rank = int(rank);
    start.place.size = int(size);
    start.ranks_on_host = int(on_host);
    return start;
  } catch (const nlohmann::json::exception& error) {
    return wrong(error.what());
  }
}

Result<EpochOrder> check_order(std::span<const std::byte> bytes) {
  TRIREME_TRY(order, copy_of<EpochOrder>(bytes, "an order"));
  const bool is_valid = order.epoch > 0 && order.size > 0 && order.size <= kLargestTcpWorld &&
                        order.rank >= 0 && order.rank < order.size &&
                        is_possible(order.layout, order.size) && order.ranks_on_host > 0 &&
                        order.ranks_on_host <= order.size && order.num_failures >= 0 &&
                        order.first_failure_number >= 0 && order.num_left_out >= 0 &&
                        order.num_left_out <= kMostLeftOutBatches && order.clean_step >= -1 &&
                        (order.must_go_back == 0 || order.clean_step >= 0);
  const bool are_texts_whole =
      std::memchr(order.failures, 0, sizeof order.failures) != nullptr &&
      std::find(order.rendezvous.begin(), order.rendezvous.end(), '\0') != order.rendezvous.end();
  if (!is_valid || !are_texts_whole) return wrong("an order has impossible values");
  return order;
}

Result<RankReport> check_report(std::span<const std::byte> bytes) {
  TRIREME_TRY(report, copy_of<RankReport>(bytes, "a report"));
  if (uint32_t(report.kind) > uint32_t(RankReport::kLastKind) ||
      std::memchr(report.text, 0, sizeof report.text) == nullptr) {
    return wrong("a report has impossible values");
  }
  return report;
}

Result<PageValues> check_page(std::span<const std::byte> bytes) {
  TRIREME_TRY(values, copy_of<PageValues>(bytes, "a page"));
  if (values.measured_bytes < 0 || size_t(values.measured_bytes) > values.measured.size()) {
    return wrong("a page has impossible values");
  }
  return values;
}

Result<LivingProcess> check_living(std::span<const std::byte> bytes) {
  TRIREME_TRY(living, copy_of<LivingProcess>(bytes, "a process"));
  const bool is_possible = living.size > 0 && living.size <= kLargestTcpWorld && living.rank >= 0 &&
                           living.rank < living.size &&
                           uint32_t(living.state) <= uint32_t(LivingProcess::State::Waiting);
  if (!is_possible) return wrong("a process has impossible values");
  return living;
}

std::vector<WatchedWords> words_of(const std::vector<WatchedProcess>& watched) {
  std::vector<WatchedWords> words;
  for (const auto& [process, rank] : watched) {
    if (words.size() == kMostWatched) break;
    words.push_back({.process = process,
                     .sample = rank.sample,
                     .silent_ns = rank.silent_ns,
                     .budget_ns = rank.budget_ns,
                     .most_ns = rank.most_ns,
                     .is_stopped = rank.is_stopped ? 1 : 0});
  }
  return words;
}

// Numbers that are added or subtracted later must stay far from overflow.
Result<std::vector<WatchedProcess>> check_watched(std::span<const std::byte> bytes) {
  constexpr int64_t kMost = INT64_MAX / 8;
  const auto is_number = [](int64_t value) { return value >= 0 && value <= kMost; };
  if (bytes.size() % sizeof(WatchedWords) != 0) return wrong("what was seen of ranks is cut off");
  std::vector<WatchedProcess> watched;
  for (; !bytes.empty(); bytes = bytes.subspan(sizeof(WatchedWords))) {
    TRIREME_TRY(words, copy_of<WatchedWords>(bytes.first(sizeof(WatchedWords)), "a rank"));
    const RankSample& sample = words.sample;
    const bool is_possible =
        sample.rank >= -1 && sample.rank < kLargestTcpWorld && sample.stage >= 0 &&
        uint32_t(sample.phase) < uint32_t(kNumRankPhases) && is_number(sample.steps) &&
        sample.action_code.back() == '\0' && is_number(sample.computed_ns) &&
        is_number(sample.step_ns) && sample.wait_group >= 0 && is_number(words.silent_ns) &&
        is_number(words.budget_ns) && is_number(words.most_ns);
    if (!is_possible) return wrong("what was seen of a rank has impossible values");
    watched.push_back({words.process,
                       {.sample = sample,
                        .silent_ns = words.silent_ns,
                        .budget_ns = words.budget_ns,
                        .most_ns = words.most_ns,
                        .is_stopped = words.is_stopped != 0}});
  }
  return watched;
}

MembershipWords words_of(const MembershipMessage& message) {
  return {
      .kind = message.kind, .epoch = message.epoch, .step = message.step, .lease = message.lease};
}

Result<MembershipMessage> check_membership(std::span<const std::byte> bytes) {
  TRIREME_TRY(words, copy_of<MembershipWords>(bytes, "a word about the membership"));
  const bool is_possible =
      uint32_t(words.kind) <= uint32_t(MembershipMessage::Kind::Committed) && words.epoch >= 0;
  if (!is_possible) return wrong("a word about the membership has impossible values");
  return MembershipMessage{
      .kind = words.kind, .epoch = words.epoch, .step = words.step, .lease = words.lease};
}

}  // namespace trireme
