#include "cli/plan_collectives.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/units.h"
#include "predict/axis_collectives.h"

namespace trireme {
namespace {

bool is_between_two(const AxisCollective& one) { return one.sent_bytes == 0.0; }

std::string line_of(const AxisCollective& one) {
  if (is_between_two(one)) {
    return fmt::format("{} {}: messages between {} ranks", one.axis, one.collective,
                       one.span.count);
  }
  // How many bytes a rank sends depends on the method; they are counted for our own messages alone.
  const bool is_counted = one.price.method == CollectiveMethod::Messages;
  const double bytes = is_counted ? one.sent_bytes : one.vector_bytes;
  return fmt::format("{} {} of {} ranks: {}, {} {} in {}", one.axis, one.collective, one.span.count,
                     text_of(one.price), format_bytes(int64_t(std::llround(bytes))),
                     is_counted ? "sent" : "in all", format_seconds(one.price.seconds));
}

}  // namespace

std::string collectives_text(const RunPlan& plan, const Hardware& hardware) {
  std::string text;
  for (const AxisCollective& one : axis_collectives(plan, hardware)) {
    text += fmt::format("{:<11}{}\n", text.empty() ? "transfers" : "", line_of(one));
  }
  return text;
}

nlohmann::ordered_json collectives_json(const RunPlan& plan, const Hardware& hardware) {
  auto json = nlohmann::ordered_json::array();
  for (const AxisCollective& one : axis_collectives(plan, hardware)) {
    json.push_back({{"axis", one.axis},
                    {"collective", one.collective},
                    {"ranks", one.span.count},
                    {"stride", one.span.stride},
                    {"method", name_of(one.price.method)}});
    if (is_between_two(one)) continue;
    if (one.price.has_protocol()) json.back()["protocol"] = name_of(one.price.protocol);
    json.back()["sums_in_switch"] = one.price.method == CollectiveMethod::Switch;
    json.back()["sent_bytes"] = one.sent_bytes;
    json.back()["seconds"] = one.price.seconds;
  }
  return json;
}

}  // namespace trireme
