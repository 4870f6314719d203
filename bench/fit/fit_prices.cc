// Fits the free numbers of a device to measured kernels, collectives, layers and small runs, and
// prints them as the lines of a file of clusters/, with the error of every group of measurements.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "compile/link_cost.h"
#include "compile/price.h"
#include "fit/a100_measurements.h"
#include "fit/least_of.h"
#include "predict/predict.h"
#include "predict/tensor_moves.h"
#include "reproduce/price_runs.h"
#include "reproduce/published_clusters.h"

namespace trireme {
namespace {

// The numbers that are fitted. Each is a double of the device or of the links inside a node.
struct FreeNumber {
  const char* name;
  double* (*in)(Hardware&);
};
constexpr FreeNumber kFreeNumbers[] = {
    {"matmul_share", [](Hardware& h) { return &h.matmul_share; }},
    {"memory_share", [](Hardware& h) { return &h.memory_share; }},
    {"launch_s", [](Hardware& h) { return &h.launch_s; }},
    {"collective_s", [](Hardware& h) { return &h.collective_s; }},
    {"step_s", [](Hardware& h) { return &h.step_s; }},
    {"tiers.node.latency_s", [](Hardware& h) { return &h.tiers.front().link.latency_s; }},
    {"tiers.node.bytes_per_s", [](Hardware& h) { return &h.tiers.front().link.bytes_per_s; }},
};

struct Errors {
  double sum = 0.0, bias = 0.0, most = 0.0, robust = 0.0;
  int count = 0;

  void add(double predicted, double measured) {
    const double error = std::log(predicted / measured);
    sum += std::abs(error);
    bias += error;
    most = std::max(most, std::abs(error));
    // Quadratic up to a tenth and linear beyond: a wild measurement counts little.
    robust += std::sqrt(1.0 + error * error * 100.0) - 1.0;
    ++count;
  }
};

ModelSpec model_of(const PublishedRun& run) { return start_plan(config_of(run), {}).value().model; }

class Measurements {
 public:
  Measurements() {
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

  Errors products(const Hardware& hardware) const {
    Errors errors;
    for (const MeasuredProduct& row : kMeasuredProducts) {
      const Product product{row.m, row.n, row.k};
      // The best of many shapes is a bound: other products are as fast or slower.
      const double fastest_s = product.flops() / (row.tflops * 1e12);
      errors.add(std::min(price_product(product, DType::BF16, hardware), fastest_s), fastest_s);
    }
    return errors;
  }

  Errors all_reduces(const Hardware& hardware) const {
    Errors errors;
    for (const auto& [ranks, mebibytes, microseconds] : kMeasuredAllReduces) {
      const double bytes = mebibytes * 1048576.0 * 2.0 * (1.0 - 1.0 / ranks);
      errors.add(transfer_s(group_link(hardware, {ranks, 1}), bytes), microseconds * 1e-6);
    }
    return errors;
  }

  Errors layers(Hardware hardware) const {
    hardware.practice = practice_of(TrainerKind::Megatron);
    Errors errors;
    for (size_t i = 0; i < layer_plans_.size(); ++i) {
      const RunPlan& plan = layer_plans_[i];
      const StageSpec layer{.num_layers = 1, .has_embedding = false, .has_head = false};
      const ComputeTimes times = price_units(plan, hardware).layers.front();
      CollectiveBytes collective_bytes(comm_cost(plan));
      const auto sums_s = [&](ActionKind kind) {
        return price_tensor_moves(plan, plan.pipeline.front(), layer, kind,
                                  group_link(hardware, {8, 1}), hardware, collective_bytes)
            .seconds;
      };
      const MeasuredLayer& row = kMeasuredLayers[i];
      errors.add(times.f_s + sums_s(ActionKind::F), row.forward_ms * 1e-3);
      errors.add(times.b_s + times.w_s + sums_s(ActionKind::BW), row.backward_ms * 1e-3);
    }
    return errors;
  }

  Errors stages(Hardware hardware) const {
    hardware.practice = practice_of(TrainerKind::Megatron);
    hardware.practice.attention = AttentionPractice::MaterializedUnfusedSoftmax;
    Errors errors;
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

  Errors iterations(Hardware hardware) const {
    hardware.practice = practice_of(TrainerKind::DeepSpeed);
    Errors errors;
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

  std::vector<PublishedRun> iterations_;
  std::vector<RunPlan> plans_;
  std::vector<RunPlan> layer_plans_;
  std::vector<ModelSpec> stage_models_;
};

void print(const char* what, const Errors& errors) {
  fmt::print("# {:<12} {:>4} measurements, mean {:4.1f} %, greatest {:4.1f} %, bias {:+5.1f} %\n",
             what, errors.count, 100.0 * errors.sum / errors.count, 100.0 * errors.most,
             100.0 * errors.bias / errors.count);
}

int fit(int max_evaluations) {
  const Measurements measured;
  const auto with = [](const std::vector<double>& factors) {
    Hardware hardware = dgx_a100_80g();
    for (size_t i = 0; i < factors.size(); ++i) {
      *kFreeNumbers[i].in(hardware) *= std::abs(factors[i]);
    }
    hardware.memory_share = std::min(hardware.memory_share, 1.0);
    hardware.matmul_share = std::min(hardware.matmul_share, 1.0);
    return hardware;
  };
  // Every group counts the same, however many measurements it has.
  const auto loss = [&](const std::vector<double>& factors) {
    const Hardware hardware = with(factors);
    double sum = 0.0;
    for (const Errors& errors :
         {measured.products(hardware), measured.all_reduces(hardware), measured.layers(hardware),
          measured.stages(hardware), measured.iterations(hardware)}) {
      sum += errors.robust / errors.count;
    }
    return sum;
  };
  Hardware best =
      with(least_of(loss, std::vector<double>(std::size(kFreeNumbers), 1.0), max_evaluations));
  for (const FreeNumber& number : kFreeNumbers) {
    fmt::print("{} = {:.4g}\n", number.name, *number.in(best));
  }
  print("products", measured.products(best));
  print("all-reduces", measured.all_reduces(best));
  print("layers", measured.layers(best));
  print("stages", measured.stages(best));
  print("iterations", measured.iterations(best));
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) { return trireme::fit(argc > 1 ? std::atoi(argv[1]) : 600); }
