#pragma once

#include <random>
#include <string>
#include <vector>

#include "serving/choose_models.h"

namespace trireme {

// Small random pipelines and tiers for the laws of the search.
class RandomServing {
 public:
  explicit RandomServing(unsigned seed) : random_(seed) {}

  int below(int count) { return int(random_() % unsigned(count)); }
  double between(double least, double most) {
    return least + (most - least) * double(random_() % 1000) / 1000.0;
  }

  Tiers tiers(int num_tiers, int num_kinds, int most_workers) {
    Tiers tiers;
    for (int tier = 0; tier < num_tiers; ++tier) {
      tiers.tiers.push_back({.name = "tier" + std::to_string(tier),
                             .bytes_per_s = between(50.0, 400.0),
                             .price_per_gb = between(0.0, 2e4)});
    }
    for (int kind = 0; kind < num_kinds; ++kind) {
      tiers.kinds.push_back({.name = "kind" + std::to_string(kind),
                             .tier = below(num_tiers),
                             .workers = 1 + below(most_workers),
                             .price_per_hour = between(0.2, 4.0),
                             .memory_bytes = between(2.0, 10.0)});
    }
    return tiers;
  }

  // A chain, or, of three operators, two that a third one joins.
  ServedPipeline pipeline(const Tiers& tiers, int num_operators, int most_models) {
    ServedPipeline pipeline{.name = "random", .utilization = between(0.6, 1.0)};
    pipeline.rule = below(2) == 0 ? AccuracyRule::Product : AccuracyRule::Mean;
    pipeline.sources.push_back(
        {"source", tiers.tiers.front().name, between(1.0, 12.0), between(1.0, 20.0)});
    const bool joins = num_operators == 3 && below(2) == 0;
    for (int op = 0; op < num_operators; ++op) {
      Operator& one = pipeline.operators.emplace_back();
      one.name = "op" + std::to_string(op);
      one.weight = between(0.5, 2.0);
      if (op == 0 || (joins && op == 1)) {
        one.inputs.push_back({true, 0, 1.0});
      } else if (joins) {
        one.inputs = {{false, 0, 1.0}, {false, 1, 1.0}};
      } else {
        one.inputs.push_back({false, op - 1, between(0.3, 2.0)});
      }
      const int models = 1 + below(most_models);
      for (int model = 0; model < models; ++model) add_model(one, tiers);
    }
    return pipeline;
  }

 private:
  void add_model(Operator& one, const Tiers& tiers) {
    ServedModel& model = one.models.emplace_back();
    model.name = "model" + std::to_string(one.models.size());
    model.accuracy = between(0.5, 1.0);
    model.memory_bytes = between(1.0, 8.0);
    model.output_bytes = between(0.5, 12.0);
    for (const WorkerKind& kind : tiers.kinds) {
      if (below(6) > 0) model.speeds[kind.name] = between(1.0, 12.0);
    }
  }

  std::mt19937 random_;
};

}  // namespace trireme
