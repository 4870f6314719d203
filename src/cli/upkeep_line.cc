#include "cli/upkeep_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace trireme {
namespace {

constexpr uint64_t kFirstMs = 1000;
constexpr uint64_t kBetweenMs = 100;  // two drawings

}  // namespace

double bytes_per_s(const UpkeepProgress& progress) {
  return progress.ms == 0 ? 0.0 : double(progress.bytes) / (double(progress.ms) * 1e-3);
}

std::vector<std::string> parts_of(const UpkeepProgress& progress) {
  std::vector<std::string> parts = {
      fmt::format("{} {}/{} blocks", text_of(progress.kind), progress.done, progress.total),
      format_bytes(int64_t(progress.bytes)), format_bytes(int64_t(bytes_per_s(progress))) + "/s"};
  if (progress.done > 0 && progress.total > progress.done) {
    const double left_s =
        double(progress.ms) * 1e-3 * double(progress.total - progress.done) / double(progress.done);
    parts.push_back(format_seconds(left_s) + " left");
  }
  return parts;
}

UpkeepLine::UpkeepLine(CommandIo& io)
    : line_(io.err, standard_progress_style(io.err_is_terminal, io.color)) {}

OnProgress UpkeepLine::on_progress() {
  return [this](const UpkeepProgress& progress) -> Status {
    if (progress.kind != kind_) shown_ms_ = 0;  // a scrub ends with a repair
    kind_ = progress.kind;
    if (progress.ms < kFirstMs || progress.ms < shown_ms_ + kBetweenMs) return Done{};
    shown_ms_ = progress.ms;
    line_.update(parts_of(progress));
    return Done{};
  };
}

void UpkeepLine::finish() { line_.finish(); }

}  // namespace trireme
