// Fits the free numbers of a device to measured kernels, collectives, layers and small runs, and
// prints them as the lines of a file of clusters/, with the error of every group of measurements.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "compile/kernel_price.h"
#include "compile/link_cost.h"
#include "compile/unit_price.h"
#include "fit/a100_measurements.h"
#include "fit/h100_measurements.h"
#include "predict/fit_operators.h"
#include "predict/predict.h"
#include "predict/tensor_moves.h"
#include "reproduce/price_runs.h"
#include "reproduce/published_clusters.h"
#include "schema/earlier_megatron.h"

namespace trireme {
namespace {

// The numbers that are fitted.
constexpr FreeNumber kFreeNumbers[] = {
    {"matmul_share", [](Hardware& h) { return &h.matmul_share; }, 1.0},
    {"memory_share", [](Hardware& h) { return &h.memory_share; }, 1.0},
    {"launch_s", [](Hardware& h) { return &h.launch_s; }},
    {"collective_s", [](Hardware& h) { return &h.collective_s; }},
    {"step_s", [](Hardware& h) { return &h.step_s; }},
    {"tiers.node.bytes_per_s", [](Hardware& h) { return &h.tiers.front().link.bytes_per_s; }},
};

ModelSpec model_of(const PublishedRun& run) { return start_plan(config_of(run), {}).value().model; }

class Measurements {
 public:
  Measurements() {
    for (const auto& [ranks, mebibytes, microseconds] : kMeasuredAllReduces) {
      const double bytes = mebibytes * 1048576.0 * 2.0 * (1.0 - 1.0 / ranks);
      all_reduces_.push_back({ranks, bytes, microseconds * 1e-6});
    }
    for (const MeasuredIteration& row : kMeasuredIterations) {
      iterations_.push_back(iteration_of(row));
      plans_.push_back(plan_run(iterations_.back(), dgx_a100_80g()).value());
    }
    for (const MeasuredLayer& row : kMeasuredLayers) {
      PublishedRun layer;
      layer.row = "layer";
      layer.model = {.layers = 1, .d_model = 6144, .heads = 64};
      layer.parallel.tp = 8;
      layer.parallel.sequence = row.has_sequence_parallel;
      layer.recompute = row.recompute;
      layer.global_sequences = layer.micro_sequences = 4;
      layer_plans_.push_back(plan_run(layer, dgx_a100_80g()).value());
    }
    for (const MeasuredStage& row : kMeasuredStages) {
      PublishedRun stage;
      stage.model = {.layers = 1, .d_model = row.d_model, .heads = row.heads, .seq_len = 1024};
      stage.global_sequences = stage.micro_sequences = row.micro_sequences;
      stage_models_.push_back(model_of(stage));
    }
  }

  PriceErrors products(const Hardware& hardware) const {
    PriceErrors errors;
    for (const FastestProduct& row : kFastestProducts) {
      const Product product{row.m, row.n, row.k};
      // The best of many shapes is a bound: other products are as fast or slower.
      const double fastest_s = product.flops() / (row.tflops * 1e12);
      errors.add(std::min(price_product(product, DType::BF16, hardware), fastest_s), fastest_s);
    }
    return errors;
  }

  PriceErrors all_reduces(const Hardware& hardware) const {
    return errors_of(all_reduces_, hardware);
  }

  PriceErrors layers(Hardware hardware) const {
    hardware.practice = practice_of_megatron_2022();
    PriceErrors errors;
    for (size_t i = 0; i < layer_plans_.size(); ++i) {
      const RunPlan& plan = layer_plans_[i];
      const StageSpec layer{.num_layers = 1, .has_embedding = false, .has_head = false};
      const ComputeTimes times = price_units(plan, hardware).layers.front();
      CollectiveBytes collective_bytes(comm_cost(plan), hardware.nodes());
      const auto sums_s = [&](ActionKind kind) {
        return price_tensor_moves(plan, plan.pipeline.front(), layer, MeshAxis::Tp, kind, hardware,
                                  collective_bytes)
            .seconds;
      };
      const MeasuredLayer& row = kMeasuredLayers[i];
      errors.add(times.f_s + sums_s(ActionKind::F), row.forward_ms * 1e-3);
      errors.add(times.b_s + times.w_s + sums_s(ActionKind::BW), row.backward_ms * 1e-3);
    }
    return errors;
  }

  PriceErrors stages(Hardware hardware) const {
    hardware.practice = practice_of_megatron_2022();
    hardware.practice.attention = AttentionPractice::MaterializedUnfusedSoftmax;
    PriceErrors errors;
    for (size_t i = 0; i < stage_models_.size(); ++i) {
      const MeasuredStage& row = kMeasuredStages[i];
      const StageShape shape{.micro_sequences = row.micro_sequences, .compute = DType::BF16};
      const ComputeTimes times =
          double(row.layers) * price_units(stage_models_[i], shape, hardware).layers.front();
      errors.add(times.f_s, row.f_ms * 1e-3);
      errors.add(times.b_s, row.b_ms * 1e-3);
      errors.add(times.w_s, row.w_ms * 1e-3);
    }
    return errors;
  }

  PriceErrors iterations(Hardware hardware) const {
    hardware.practice = practice_of(TrainerKind::DeepSpeed);
    PriceErrors errors;
    for (size_t i = 0; i < plans_.size(); ++i) {
      errors.add(predicted_step_s(plans_[i], hardware), iterations_[i].step_s);
    }
    return errors;
  }

 private:
  static PublishedRun iteration_of(const MeasuredIteration& row) {
    PublishedRun run;
    run.row = "iteration";
    run.model = {.layers = row.layers, .d_model = row.d_model, .heads = row.heads, .seq_len = 1024};
    run.parallel.tp = row.tp;
    run.parallel.dp = row.dp;
    run.parallel.pp = row.pp;
    run.parallel.bucket_bytes = kOneBucket;
    run.recompute = Recompute::Full;
    run.global_sequences = row.global_sequences;
    run.micro_sequences = row.micro_sequences;
    run.step_s = row.ms * 1e-3;
    return run;
  }

  std::vector<MeasuredCollective> all_reduces_;
  std::vector<PublishedRun> iterations_;
  std::vector<RunPlan> plans_;
  std::vector<RunPlan> layer_plans_;
  std::vector<ModelSpec> stage_models_;
};

void print(std::span<const FreeNumber> numbers, Hardware& fitted) {
  for (const FreeNumber& number : numbers) {
    fmt::print("{} = {:.4g}\n", number.name, *number.in(fitted));
  }
}

// The numbers of an H100 that differ from those of an A100: products in bursts.
constexpr FreeNumber kBurstNumbers[] = {
    {"matmul_share", [](Hardware& h) { return &h.matmul_share; }, 1.0},
    {"matmul_depth", [](Hardware& h) { return &h.matmul_depth; }},
};

PriceErrors burst_errors(const Hardware& hardware) {
  PriceErrors errors;
  for (const auto& [count, m, n, k, tflops] : kBurstProducts) {
    const Product product{m, n, k, count};
    errors.add(price_product(product, DType::BF16, hardware), product.flops() / (tflops * 1e12));
  }
  return errors;
}

void fit_h100(int max_evaluations) {
  Hardware start = dgx_h100();
  start.sustained_flops = 0.0;  // bursts are too short for the power limit
  start.launch_s = 0.0;         // many of them are launched ahead
  const ErrorsOf errors[] = {burst_errors};
  Hardware best = fit_prices(start, kBurstNumbers, errors, max_evaluations);
  fmt::print("\n# clusters/dgx-h100.toml\n");
  print(kBurstNumbers, best);
  fmt::print("# {:<12} {}\n", "bursts", text_of(burst_errors(best)));
}

void fit_a100(int max_evaluations) {
  const Measurements measured;
  const std::pair<const char*, ErrorsOf> groups[] = {
      {"products", [&](const Hardware& h) { return measured.products(h); }},
      {"all-reduces", [&](const Hardware& h) { return measured.all_reduces(h); }},
      {"layers", [&](const Hardware& h) { return measured.layers(h); }},
      {"stages", [&](const Hardware& h) { return measured.stages(h); }},
      {"iterations", [&](const Hardware& h) { return measured.iterations(h); }}};
  std::vector<ErrorsOf> errors;
  for (const auto& [name, of_group] : groups) errors.push_back(of_group);
  Hardware best = fit_prices(dgx_a100_80g(), kFreeNumbers, errors, max_evaluations);
  fmt::print("# clusters/dgx-a100-80g.toml\n");
  print(kFreeNumbers, best);
  for (const auto& [name, of_group] : groups) {
    fmt::print("# {:<12} {}\n", name, text_of(of_group(best)));
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const int max_evaluations = argc > 1 ? std::atoi(argv[1]) : 600;
  trireme::fit_a100(max_evaluations);
  trireme::fit_h100(max_evaluations);
  return 0;
}
