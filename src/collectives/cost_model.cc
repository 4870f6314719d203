#include "collectives/cost_model.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace trireme {
namespace {

bool one_node(std::span<const int> node_of) {
  return std::all_of(node_of.begin(), node_of.end(), [&](int n) { return n == node_of[0]; });
}

// For larger groups only one rank's plan is priced; these algorithms are balanced or rooted at 0.
constexpr int kMaxPricedRanks = 64;

bool is_canonical(Collective collective, Algorithm algorithm) {
  if (!is_reduction(collective)) return true;
  return algorithm == Algorithm::Tree || algorithm == Algorithm::Doubling ||
         algorithm == Algorithm::HalvingDoubling || algorithm == Algorithm::Naive;
}

}  // namespace

double predict_seconds(const PlanRequest& request, int64_t element_bytes, const CommCost& cost) {
  double slowest = 0;
  PlanRequest q = request;
  const bool flat = q.node_of.empty() || one_node(q.node_of);
  const int priced = q.size <= kMaxPricedRanks ? q.size : 1;
  int rounds = 0;
  for (int rank = 0; rank < priced; ++rank) {
    q.rank = rank;
    const Result<CommPlan> plan = plan_collective(q);
    if (!plan.ok()) return std::numeric_limits<double>::infinity();
    rounds = plan->rounds;
    double seconds = 0;
    for (const Step& step : plan->steps) {
      double bytes_s = 0;
      if (step.kind == Step::Kind::ReduceRanks) {
        bytes_s = double(step.recv.count * element_bytes) * (q.size - 1) * cost.gamma_s_per_byte;
      } else if (step.kind == Step::Kind::Exchange) {
        for (const auto& [peer, count] : {std::pair{step.send_to, step.send.count},
                                          std::pair{step.recv_from, step.recv.count}}) {
          if (peer < 0) continue;
          const bool inside = flat || q.node_of[size_t(peer)] == q.node_of[size_t(rank)];
          const LinkCost& link = inside ? cost.inside : cost.across;
          bytes_s = std::max(bytes_s,
                             link.alpha_s + double(count * element_bytes) * link.beta_s_per_byte);
        }
        if (step.landing != Landing::Copy) {
          bytes_s += double(step.recv.count * element_bytes) * cost.gamma_s_per_byte;
        }
      }
      seconds += bytes_s;
    }
    slowest = std::max(slowest, seconds);
  }
  // Ranks that skip rounds still wait for them.
  return std::max(slowest, rounds * cost.inside.alpha_s);
}

Algorithm choose_algorithm(const PlanRequest& request, int64_t element_bytes, const CommCost& cost,
                           bool canonical) {
  Algorithm best = Algorithm::Naive;
  double best_s = std::numeric_limits<double>::infinity();
  for (Algorithm algorithm : algorithms_of(request.collective, request.size)) {
    if (canonical && !is_canonical(request.collective, algorithm)) continue;
    PlanRequest q = request;
    q.algorithm = algorithm;
    const double seconds = predict_seconds(q, element_bytes, cost);
    if (seconds < best_s) {
      best_s = seconds;
      best = algorithm;
    }
  }
  return best;
}

}  // namespace trireme
