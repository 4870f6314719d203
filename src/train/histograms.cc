#include "train/histograms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "comm/gather_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSmallest = 1e-12;
constexpr double kLargest = 1e20;
constexpr double kGrowth = 1.1;

// Right edges of the buckets of positive numbers.
const std::vector<double>& edges() {
  static const std::vector<double> values = [] {
    std::vector<double> made;
    for (double edge = kSmallest; edge < kLargest; edge *= kGrowth) made.push_back(edge);
    return made;
  }();
  return values;
}

size_t num_buckets() { return 2 * edges().size() + 2; }

// Limits ascend: the negative edges, then the positive edges, then everything beyond.
double limit_of(size_t bucket) {
  const size_t n = edges().size();
  if (bucket < n) return -edges()[n - 1 - bucket];
  if (bucket < 2 * n) return edges()[bucket - n];
  return std::numeric_limits<double>::max();
}

size_t bucket_of(double value) {
  const std::vector<double>& of_size = edges();
  const size_t n = of_size.size();
  if (value > 0.0) {
    return n + size_t(std::lower_bound(of_size.begin(), of_size.end(), value) - of_size.begin());
  }
  // A negative bucket includes its right edge, -edge.
  return n - size_t(std::upper_bound(of_size.begin(), of_size.end(), -value) - of_size.begin());
}

void add_tensor(HistogramCounter& counter, const TensorRef& tensor, double scale) {
  if (!tensor) return;
  const size_t count = size_t(tensor.num_elements());
  if (tensor.dtype == DType::F32) return counter.add({tensor.as<float>(), count}, scale);
  if (tensor.dtype != DType::BF16) return;
  const bf16* values = tensor.as<bf16>();
  const std::vector<float> wide(values, values + count);
  counter.add(wide, scale);
}

using Counters = std::map<std::string, HistogramCounter>;

Counters merged(const std::vector<std::string>& texts, const char* kind) {
  Counters all;
  for (const std::string& text : texts) {
    const Json json = parse_ordered_json(text);
    for (const auto& entry : json.at(kind).items()) {
      all[entry.key()].add(HistogramCounter::parse(entry.value().get<std::string>()));
    }
  }
  return all;
}

std::vector<TensorHistogram> histograms(const Counters& counters) {
  std::vector<TensorHistogram> result;
  for (const auto& entry : counters) result.push_back(entry.second.histogram(entry.first));
  return result;
}

}  // namespace

void HistogramCounter::add(std::span<const float> values, double scale) {
  counts_.resize(num_buckets(), 0);
  for (const float element : values) {
    const double value = double(element) * scale;
    if (!std::isfinite(value)) continue;
    min_ = num_ == 0 ? value : std::min(min_, value);
    max_ = num_ == 0 ? value : std::max(max_, value);
    ++num_;
    sum_ += value;
    sum_squares_ += value * value;
    ++counts_[bucket_of(value)];
  }
}

void HistogramCounter::add(const HistogramCounter& other) {
  if (other.num_ == 0) return;
  counts_.resize(num_buckets(), 0);
  min_ = num_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = num_ == 0 ? other.max_ : std::max(max_, other.max_);
  num_ += other.num_;
  sum_ += other.sum_;
  sum_squares_ += other.sum_squares_;
  for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
}

TensorHistogram HistogramCounter::histogram(std::string_view name) const {
  TensorHistogram result{std::string(name), min_, max_, num_, sum_, sum_squares_, {}, {}};
  for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    const bool extends_empty =
        counts_[bucket] == 0 && !result.counts.empty() && result.counts.back() == 0.0;
    if (extends_empty) {
      result.limits.back() = limit_of(bucket);
    } else {
      result.limits.push_back(limit_of(bucket));
      result.counts.push_back(double(counts_[bucket]));
    }
  }
  // Drops the empty buckets after the largest element.
  if (result.counts.size() > 1 && result.counts.back() == 0.0) {
    result.limits.pop_back();
    result.counts.pop_back();
  }
  return result;
}

std::string HistogramCounter::text() const {
  Json json = {min_, max_, num_, sum_, sum_squares_, Json::array()};
  for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    if (counts_[bucket] > 0) json[5].push_back({bucket, counts_[bucket]});
  }
  return json_text(json);
}

HistogramCounter HistogramCounter::parse(std::string_view text) {
  const Json json = parse_ordered_json(text);
  HistogramCounter counter;
  counter.counts_.resize(num_buckets(), 0);
  counter.min_ = json.at(0);
  counter.max_ = json.at(1);
  counter.num_ = json.at(2);
  counter.sum_ = json.at(3);
  counter.sum_squares_ = json.at(4);
  for (const Json& one : json.at(5)) counter.counts_.at(one.at(0)) = one.at(1);
  return counter;
}

HistogramReport gather_histograms(Engine& engine, int64_t valid_tokens) {
  Json own = {{"weights", Json::object()}, {"grads", Json::object()}};
  Counters weights, grads;
  engine.read_grads([&] {
    for (const OwnedTensors& owned : engine.owned()) {
      if (!owned.in_checkpoint) continue;  // only the rank that writes it counts it
      add_tensor(weights[owned.spec->name], owned.master_N, 1.0);
      if (!owned.grad_N) continue;  // it is never computed
      add_tensor(grads[owned.spec->name], owned.grad_N,
                 1.0 / double(std::max<int64_t>(1, valid_tokens)) / engine.loss_scale_of_grads());
    }
  });
  for (const auto& entry : weights) own["weights"][entry.first] = entry.second.text();
  for (const auto& entry : grads) own["grads"][entry.first] = entry.second.text();
  const std::vector<std::string> texts = gather_text(engine.world(), json_text(own));
  HistogramReport report;
  if (engine.world().rank() != 0) return report;
  report.weights = histograms(merged(texts, "weights"));
  report.grads = histograms(merged(texts, "grads"));
  return report;
}

}  // namespace trireme
