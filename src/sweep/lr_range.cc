#include "sweep/lr_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sweep/swept_key.h"

namespace trireme {
namespace {

constexpr int64_t kWindows = 20;      // of a test
constexpr double kLostShare = 0.5;    // of what the loss had gained
constexpr double kNoiseFactor = 8.0;  // standard deviations of a smoothed loss

// Steps on each side of a smoothed loss.
int64_t half_window(int64_t total_steps) {
  return std::max<int64_t>(1, total_steps / kWindows / 2);
}

// The standard deviation of a single loss around the curve, by the differences of neighbours.
double noise_of(const std::vector<double>& losses, size_t count) {
  double sum = 0.0;
  for (size_t i = 1; i < count; ++i) sum += std::pow(losses[i] - losses[i - 1], 2);
  return count > 1 ? std::sqrt(0.5 * sum / double(count - 1)) : 0.0;
}

// Returns the index from which on the loss is lost again, or smoothed.size(). Only full windows
// count, so that what is found does not change when the curve becomes longer.
size_t diverged_at(const std::vector<double>& smoothed, const std::vector<double>& losses,
                   int64_t half) {
  const size_t first = size_t(half), width = 2 * first + 1, end = smoothed.size();
  size_t lowest = first;
  for (size_t i = first; i + first < end; ++i) {
    if (smoothed[i] < smoothed[lowest]) lowest = i;
    const double noise = noise_of(losses, std::max(lowest, width)) / std::sqrt(double(width));
    const double gained = smoothed[first] - smoothed[lowest];
    if (smoothed[i] > smoothed[lowest] + std::max(kLostShare * gained, kNoiseFactor * noise)) {
      return i;
    }
  }
  return end;
}

// True if the smoothed loss falls by more than single losses lie around it. A smaller fall may be
// chance.
bool falls_beyond_noise(const std::vector<double>& smoothed, const std::vector<double>& losses,
                        size_t end) {
  if (end == 0) return false;
  const double lowest = *std::min_element(smoothed.begin(), smoothed.begin() + int64_t(end));
  return smoothed.front() - lowest > noise_of(losses, end);
}

}  // namespace

Result<LrRange> parse_lr_range(std::string_view text) {
  const Result<SweptKey> key = parse_swept_key(fmt::format("optim.lr={}:log", text));
  if (!key.ok() || key->spacing != Spacing::Log) {
    return usage(
        fmt::format("--lr-range {}: expected two rates above 0, the lower one first, such "
                    "as 1e-6..1",
                    text));
  }
  return LrRange{key->from, key->to};
}

std::vector<double> smoothed_losses(const TrialCurve& curve, int64_t total_steps) {
  const std::vector<double>& losses = curve.losses();
  const auto finite_end = std::find_if_not(losses.begin(), losses.end(),
                                           [](double loss) { return std::isfinite(loss); });
  const int64_t count = finite_end - losses.begin(), half = half_window(total_steps);
  std::vector<double> smoothed;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t side = std::min({half, i, count - 1 - i});
    smoothed.push_back(curve.mean_loss(curve.first_step() + i + side, 2 * side + 1));
  }
  return smoothed;
}

LrFinding find_lr(const TrialCurve& curve, int64_t total_steps) {
  const std::vector<double> smoothed = smoothed_losses(curve, total_steps);
  const int64_t half = half_window(total_steps);
  LrFinding finding;
  const size_t end = diverged_at(smoothed, curve.losses(), half);
  if (end < curve.losses().size()) {
    finding.diverged_step = curve.first_step() + int64_t(end);
    finding.diverged_lr = curve.lrs()[end];
  }
  if (!falls_beyond_noise(smoothed, curve.losses(), end)) return finding;
  double steepest = 0.0;
  const auto reach = size_t(2 * half);
  for (size_t i = reach; i + reach < end; ++i) {
    const double rise = smoothed[i + reach] - smoothed[i - reach];
    if (rise >= steepest) continue;
    steepest = rise;
    finding.steepest_lr = curve.lrs()[i];
  }
  return finding;
}

std::optional<double> LrFinding::suggested_lr() const {
  if (!diverged_lr) return steepest_lr;
  const double tenth = *diverged_lr / 10.0;
  return steepest_lr ? std::min(*steepest_lr, tenth) : tenth;
}

}  // namespace trireme
