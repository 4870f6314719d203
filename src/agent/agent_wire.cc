#include "agent/agent_wire.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bounded_json.h"

namespace trireme {
namespace {

Error wrong(const std::string& what) {
  return damaged(fmt::format("a message between the agents of a job is damaged: {}", what));
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
    case AgentMessageKind::Host:
    case AgentMessageKind::Ended:
    case AgentMessageKind::Left:
    case AgentMessageKind::Welcome:
    case AgentMessageKind::Start:
      return std::nullopt;
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

std::string to_json(const AgentWelcome& welcome) {
  return nlohmann::json{{"command", welcome.command}, {"folder", welcome.folder}}.dump();
}

Result<AgentWelcome> check_welcome(const std::string& text) {
  TRIREME_TRY(json, parse_bounded_json(text));
  try {
    AgentWelcome welcome{json.at("command").get<std::vector<std::string>>(),
                         json.at("folder").get<std::string>()};
    if (welcome.command.empty()) return wrong("the command of the ranks is empty");
    return welcome;
  } catch (const nlohmann::json::exception& error) {
    return wrong(error.what());
  }
}

std::string to_json(const StartPlace& start) {
  return nlohmann::json{{"rendezvous", start.place.rendezvous},
                        {"epoch", start.place.epoch},
                        {"rank", start.place.rank},
                        {"size", start.place.size},
                        {"ranks_on_host", start.ranks_on_host}}
      .dump();
}

Result<StartPlace> check_start(const std::string& text) {
  TRIREME_TRY(json, parse_bounded_json(text));
  try {
    StartPlace start;
    start.place.rendezvous = json.at("rendezvous").get<std::string>();
    start.place.epoch = json.at("epoch").get<uint64_t>();
    const auto rank = json.at("rank").get<int64_t>();
    const auto size = json.at("size").get<int64_t>();
    const auto on_host = json.at("ranks_on_host").get<int64_t>();
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
                        order.first_failure_number >= 0;
  if (!is_valid || std::memchr(order.failures, 0, sizeof order.failures) == nullptr) {
    return wrong("an order has impossible values");
  }
  return order;
}

Result<RankReport> check_report(std::span<const std::byte> bytes) {
  TRIREME_TRY(report, copy_of<RankReport>(bytes, "a report"));
  if (uint32_t(report.kind) > uint32_t(RankReport::Kind::Failed) ||
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

}  // namespace trireme
