#include "predict/fit_operators.h"

#include <algorithm>
#include <iterator>

#include "collectives/comm_cost.h"
#include "compile/collective_price.h"
#include "compile/kernel_price.h"

namespace trireme {
namespace {

constexpr int kFitEvaluations = 300;

// Numbers that are below all that is measured. A fit multiplies its start, so it cannot begin at 0.
constexpr double kLeastTime_s = 1e-7;
constexpr double kShortestTime_s = 1e-9;  // what is shorter takes no time
constexpr double kUsualBytesPerS = 1e9;

// The fit has eight free numbers: those of these tables.
constexpr FreeNumber kMemoryNumbers[] = {
    {"device.memory_share", [](Hardware& h) { return &h.memory_share; }, 1.0},
    {"device.launch_s", [](Hardware& h) { return &h.launch_s; }, 1.0}};
constexpr FreeNumber kProductNumbers[] = {
    {"device.matmul_share", [](Hardware& h) { return &h.matmul_share; }, 1.0},
    {"device.matmul_bytes_per_s", [](Hardware& h) { return &h.matmul_bytes_per_s; }}};
constexpr FreeNumber kAttentionNumbers[] = {
    {"device.attention_share", [](Hardware& h) { return &h.attention_share; }, 1.0}};
constexpr FreeNumber kVectorNumbers[] = {
    {"device.vector_share", [](Hardware& h) { return &h.vector_share; }, 8.0}};
// The shortest kernels of every kind show it.
constexpr FreeNumber kLaunchNumbers[] = {
    {"device.launch_s", [](Hardware& h) { return &h.launch_s; }, 1.0}};
constexpr FreeNumber kLinkNumbers[] = {
    {"latency_s", [](Hardware& h) { return &h.tiers.front().link.latency_s; }},
    {"bytes_per_s", [](Hardware& h) { return &h.tiers.front().link.bytes_per_s; }}};

template <typename Row>
ErrorsOf group_of(const std::vector<Row>& measured) {
  return [&measured](const Hardware& hardware) { return errors_of(measured, hardware); };
}

// A simplex that has become flat before the minimum goes on as a new one.
Hardware fit_curve(const Hardware& start, std::span<const FreeNumber> numbers,
                   const std::vector<ErrorsOf>& groups) {
  constexpr int kSimplexes = 3;
  Hardware fitted = start;
  for (int simplex = 0; simplex < kSimplexes; ++simplex) {
    fitted = fit_prices(fitted, numbers, groups, kFitEvaluations);
  }
  return fitted;
}

std::vector<MeasuredProduct> of_dtype(const std::vector<MeasuredProduct>& products, DType dtype) {
  std::vector<MeasuredProduct> chosen;
  std::copy_if(products.begin(), products.end(), std::back_inserter(chosen),
               [&](const MeasuredProduct& row) { return row.dtype == dtype; });
  return chosen;
}

// Each curve in turn, beginning with the one that knows most of the launch; the launch at last by
// all of them.
Hardware fit_kernels(Hardware start, const MeasuredOperators& measured) {
  const auto fp32 = of_dtype(measured.products, DType::F32);
  const auto bf16 = of_dtype(measured.products, DType::BF16);
  std::vector<ErrorsOf> all;
  const auto fit = [&](std::span<const FreeNumber> numbers, std::vector<ErrorsOf> groups) {
    start = fit_curve(start, numbers, groups);
    all.insert(all.end(), groups.begin(), groups.end());
  };
  const auto begin_launch = [&] { start.launch_s = std::max(start.launch_s, kLeastTime_s); };
  begin_launch();
  if (!measured.kernels.empty()) fit(kMemoryNumbers, {group_of(measured.kernels)});
  if (!measured.products.empty()) {
    fit(kProductNumbers, {group_of(fp32), group_of(bf16)});
  }
  if (!measured.vectors.empty()) fit(kVectorNumbers, {group_of(measured.vectors)});
  if (!measured.attentions.empty()) fit(kAttentionNumbers, {group_of(measured.attentions)});
  begin_launch();
  return fit_curve(start, kLaunchNumbers, all);
}

}  // namespace

PriceErrors errors_of(const std::vector<MeasuredProduct>& measured, const Hardware& hardware) {
  PriceErrors errors;
  for (const auto& [product, dtype, seconds] : measured) {
    errors.add(price_product(product, dtype, hardware), seconds);
  }
  return errors;
}

PriceErrors errors_of(const std::vector<MeasuredAttention>& measured, const Hardware& hardware) {
  PriceErrors errors;
  for (const auto& [work, is_backward, dtype, seconds] : measured) {
    const double factor = is_backward ? kBackwardAttention : 1.0;
    errors.add(price_fused_attention(work, factor, dtype, hardware), seconds);
  }
  return errors;
}

PriceErrors errors_of(const std::vector<MeasuredKernel>& measured, const Hardware& hardware) {
  PriceErrors errors;
  for (const auto& [bytes, seconds] : measured) {
    errors.add(price_memory(bytes, 1, hardware), seconds);
  }
  return errors;
}

PriceErrors errors_of(const std::vector<MeasuredVector>& measured, const Hardware& hardware) {
  PriceErrors errors;
  for (const auto& [bytes, operations, seconds] : measured) {
    const HalfWork work{.products = {}, .bytes = bytes, .operations = operations, .calls = 1};
    errors.add(price_vectors(work, hardware), seconds);
  }
  return errors;
}

PriceErrors errors_of(const std::vector<MeasuredCollective>& measured, const Hardware& hardware) {
  PriceErrors errors;
  for (const auto& [ranks, sent_bytes, seconds] : measured) {
    errors.add(collectives_s(hardware, {ranks, 1}, VectorMove::AllReduce, sent_bytes), seconds);
  }
  return errors;
}

PriceErrors errors_of(const std::vector<MeasuredMessages>& measured, const Hardware& hardware) {
  const CommCost cost = comm_cost_of(hardware);
  PriceErrors errors;
  for (const auto& [request, element_bytes, seconds] : measured) {
    errors.add(predict_seconds(request, element_bytes, cost), seconds);
  }
  return errors;
}

std::vector<std::pair<std::string, PriceErrors>> errors_of(const MeasuredOperators& measured,
                                                           const Hardware& hardware) {
  std::vector<std::pair<std::string, PriceErrors>> groups;
  const auto add = [&](std::string name, const auto& rows) {
    if (!rows.empty()) groups.emplace_back(std::move(name), errors_of(rows, hardware));
  };
  add("products fp32", of_dtype(measured.products, DType::F32));
  add("products bf16", of_dtype(measured.products, DType::BF16));
  add("attention", measured.attentions);
  add("vectors", measured.vectors);
  add("memory", measured.kernels);
  add("collectives", measured.collectives);
  add("messages", measured.messages);
  return groups;
}

Hardware fit_operators(Hardware start, const MeasuredOperators& measured) {
  const auto at_least = [](double& number, double least) { number = std::max(number, least); };
  const bool has_kernels =
      !measured.kernels.empty() || !measured.products.empty() || !measured.attentions.empty();
  if (has_kernels) start = fit_kernels(start, measured);
  if (!measured.collectives.empty() || !measured.messages.empty()) {
    if (start.tiers.empty()) start.set_nodes(0, {kLeastTime_s, kUsualBytesPerS});
    at_least(start.tiers.front().link.latency_s, kLeastTime_s);
    start = fit_curve(start, kLinkNumbers,
                      {group_of(measured.collectives), group_of(measured.messages)});
  }
  if (start.launch_s < kShortestTime_s) start.launch_s = 0.0;
  return start;
}

}  // namespace trireme
