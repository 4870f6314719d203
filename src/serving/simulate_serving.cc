#include "serving/simulate_serving.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "base/philox.h"

namespace trireme {
namespace {

// Sources whose items are joined. Their items arrive together, and one of each makes a request.
struct ArrivalStream {
  std::vector<int> sources;
  double per_s = 0.0;
};

// The sources from which items of each operator come, as bits.
std::vector<uint64_t> origins_of(const ServedPipeline& pipeline) {
  std::vector<uint64_t> origins;
  for (const Operator& one : pipeline.operators) {
    uint64_t bits = 0;
    for (const OperatorInput& input : one.inputs) {
      bits |= input.is_source ? uint64_t{1} << input.index : origins[size_t(input.index)];
    }
    origins.push_back(bits);
  }
  return origins;
}

std::vector<ArrivalStream> streams_of(const ServedPipeline& pipeline) {
  std::vector<uint64_t> groups;
  for (size_t source = 0; source < pipeline.sources.size(); ++source) {
    groups.push_back(uint64_t{1} << source);
  }
  for (const uint64_t joined : origins_of(pipeline)) {
    uint64_t all = joined;
    for (const uint64_t group : groups) all |= (group & joined) != 0 ? group : 0;
    for (uint64_t& group : groups) group = (group & all) != 0 ? all : group;
  }
  std::vector<ArrivalStream> streams;
  for (size_t source = 0; source < groups.size(); ++source) {
    const bool is_first = (groups[source] & ((uint64_t{1} << source) - 1)) == 0;
    if (!is_first) continue;
    ArrivalStream& stream = streams.emplace_back();
    stream.per_s = pipeline.sources[source].items_per_s;
    for (size_t other = source; other < groups.size(); ++other) {
      if (groups[other] == groups[source]) stream.sources.push_back(int(other));
    }
  }
  return streams;
}

// An item on its way to an operator. Items of one request are told apart by their order.
struct FlowingItem {
  int64_t request = 0;
  int64_t order = 0;
  int op = 0;
  int tier = 0;  // where it is
  double bytes = 0.0;
};

class ServingSimulator {
 public:
  ServingSimulator(const ServedPipeline& pipeline, const Tiers& tiers, const ServingPlan& plan,
                   const ServingTrial& trial)
      : pipeline_(pipeline),
        tiers_(tiers),
        plan_(plan),
        trial_(trial),
        problem_(deployment_problem(pipeline, tiers, plan.choice)),
        streams_(streams_of(pipeline)),
        key_(rng_key(trial.seed, "serving")),
        readers_(pipeline.operators.size()),
        depths_(pipeline.operators.size(), 1),
        joined_(pipeline.operators.size()),
        link_free_s_(tiers.tiers.size(), 0.0),
        link_busy_s_(tiers.tiers.size(), 0.0) {
    for (size_t op = 0; op < pipeline.operators.size(); ++op) {
      for (const OperatorInput& input : pipeline.operators[op].inputs) {
        if (input.is_source) continue;
        readers_[size_t(input.index)].push_back(int(op));
        depths_[op] = std::max(depths_[op], depths_[size_t(input.index)] + 1);
      }
      add_pools(int(op));
    }
  }

  ServingTrialResult run() {
    if (!plan_arrivals()) return {};
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_s_ = event.at_s;
      if (event.pool >= 0) {
        finish_item(event.item, size_t(event.pool));
      } else if (event.stream >= 0) {
        arrive(event.item.request, streams_[size_t(event.stream)]);
      } else {
        move(event.item);
      }
    }
    return result();
  }

 private:
  struct Event {
    double at_s = 0.0;
    int64_t number = 0;  // events at the same time keep their order
    FlowingItem item;
    int pool = -1;    // a worker of it has finished the item
    int stream = -1;  // a request arrives
    bool operator>(const Event& other) const {
      return std::tie(at_s, number) > std::tie(other.at_s, other.number);
    }
  };
  struct Pool {
    int op = 0, kind = 0, tier = 0;
    int64_t workers = 0;
    int64_t slots = 0, busy = 0;  // items that all workers do at a time
    double item_s = 0.0;          // of a slot
    double given = 0.0;           // items that were sent here
    double busy_s = 0.0;
    std::deque<FlowingItem> queue;
  };

  void add_pools(int op) {
    for (size_t kind = 0; kind < problem_.kinds.size(); ++kind) {
      const int64_t workers = plan_.deployment.workers[size_t(op)][kind];
      if (workers == 0) continue;
      const size_t model = size_t(plan_.choice[size_t(op)]);
      const int64_t batch = pipeline_.operators[size_t(op)].models[model].language_model.batch;
      pools_.push_back({.op = op,
                        .kind = int(kind),
                        .tier = problem_.kinds[kind].tier,
                        .workers = workers,
                        .slots = workers * batch,
                        .item_s = double(batch) / problem_.works[size_t(op)].speeds[kind]});
    }
  }

  void post(double at_s, Event event) {
    event.at_s = at_s;
    event.number = num_events_++;
    events_.push(event);
  }

  double uniform(uint64_t sample, uint64_t element) const {
    const PhiloxCounter words = philox(key_, counter_of(sample, element));
    return (double(words[0]) + double(words[1]) * 0x1p-32 + 0x1p-33) * 0x1p-32;
  }

  bool plan_arrivals() {
    constexpr double kFewestRequests = 100;
    double per_s = 0.0, items_per_s = 0.0;
    for (const ArrivalStream& stream : streams_) per_s += stream.per_s;
    for (const double rate : pipeline_.rates()) items_per_s += rate;
    const double requests =
        std::min(double(trial_.requests), trial_.most_items * per_s / items_per_s);
    if (requests < std::min(kFewestRequests, double(trial_.requests))) return false;
    end_s_ = requests / per_s;
    start_s_ = trial_.warm_up * end_s_;
    for (size_t stream = 0; stream < streams_.size(); ++stream) {
      double at_s = 0.0;
      for (uint64_t number = 0;; ++number) {
        at_s -= std::log(uniform(number, uint64_t{1} << 40 | stream)) / streams_[stream].per_s;
        if (at_s >= end_s_) break;
        post(at_s, {.item = {.request = int64_t(arrived_s_.size())}, .stream = int(stream)});
        arrived_s_.push_back(at_s);
      }
    }
    left_.assign(arrived_s_.size(), 0);
    finished_s_.assign(arrived_s_.size(), -1.0);
    return true;
  }

  void arrive(int64_t request, const ArrivalStream& stream) {
    ++left_[size_t(request)];  // until all of its items are sent
    for (const int source : stream.sources) {
      const Source& from = pipeline_.sources[size_t(source)];
      for (size_t op = 0; op < pipeline_.operators.size(); ++op) {
        for (const OperatorInput& input : pipeline_.operators[op].inputs) {
          if (!input.is_source || input.index != source) continue;
          send({request, 0, int(op), tiers_.tier_named(from.tier), from.item_bytes}, input.items,
               0);
        }
      }
    }
    leave(request);
  }

  // Sends the items that one item becomes. Their number has the mean `items`. Edges from the same
  // item draw the same number, so that items that are joined later come in equal numbers.
  void send(FlowingItem item, double items, int depth) {
    const uint64_t drawn = uint64_t(depth) << 32 | uint64_t(item.order & 0xffffffff);
    const int64_t count = int64_t(std::floor(items + uniform(uint64_t(item.request), drawn)));
    // Orders of a long chain of operators wrap around at 2^62.
    const uint64_t place = uint64_t(item.order) * uint64_t(std::ceil(items));
    const int64_t first = int64_t(place & ((uint64_t{1} << 62) - 1));
    for (int64_t i = 0; i < count; ++i) {
      item.order = first + i;
      ++left_[size_t(item.request)];
      move(item);
    }
  }

  // Requests are spread evenly over the shares of the tiers.
  int tier_of(int64_t request, size_t op) const {
    constexpr double kGolden = 0.6180339887498949;
    const double place = double(request) * kGolden;
    const double share = place - std::floor(place);
    const std::vector<double>& done = plan_.deployment.done[op];
    for (size_t tier = 0; tier < done.size(); ++tier) {
      if (share < done[tier]) return int(tier);
    }
    return int(done.size()) - 1;
  }

  void move(const FlowingItem& item) {
    if (item.tier == tier_of(item.request, size_t(item.op))) return join(item);
    const Tier& link = tiers_.tiers[size_t(item.tier)];
    double& free_s = link_free_s_[size_t(item.tier)];
    const double seconds = link.bytes_per_s > 0.0 ? item.bytes / link.bytes_per_s : 0.0;
    const double begin_s = std::max(free_s, now_s_);
    free_s = begin_s + seconds;
    link_busy_s_[size_t(item.tier)] += measured(begin_s, free_s);
    FlowingItem arrived = item;
    ++arrived.tier;
    post(free_s + link.latency_s, {.item = arrived});
  }

  void join(const FlowingItem& item) {
    const size_t op = size_t(item.op);
    const size_t inputs = pipeline_.operators[op].inputs.size();
    if (inputs > 1) {
      const auto key = std::pair(item.request, item.order);
      const size_t there = ++joined_[op][key];
      if (there < inputs) return leave(item.request);  // the last one goes on for all
      joined_[op].erase(key);
    }
    Pool& pool = pool_for(item);
    ++pool.given;
    pool.queue.push_back(item);
    start_next(pool);
  }

  // The kinds of a tier take items in proportion to the speed of their workers.
  Pool& pool_for(const FlowingItem& item) {
    Pool* chosen = nullptr;
    double least = 0.0;
    for (Pool& pool : pools_) {
      if (pool.op != item.op || pool.tier != item.tier) continue;
      const double load = (pool.given + 1.0) * pool.item_s / double(pool.slots);
      if (chosen == nullptr || load < least) {
        chosen = &pool;
        least = load;
      }
    }
    TRIREME_CHECK(chosen != nullptr, "an item is sent where no worker is");
    return *chosen;
  }

  void start_next(Pool& pool) {
    if (pool.busy >= pool.slots || pool.queue.empty()) return;
    ++pool.busy;
    pool.busy_s += measured(now_s_, now_s_ + pool.item_s);
    post(now_s_ + pool.item_s, {.item = pool.queue.front(), .pool = int(&pool - pools_.data())});
    pool.queue.pop_front();
  }

  void finish_item(const FlowingItem& item, size_t pool_index) {
    Pool& pool = pools_[pool_index];
    --pool.busy;
    start_next(pool);
    const size_t op = size_t(item.op);
    const ServedModel& model = pipeline_.operators[op].models[size_t(plan_.choice[op])];
    for (const int reader : readers_[op]) {
      for (const OperatorInput& input : pipeline_.operators[size_t(reader)].inputs) {
        if (input.is_source || input.index != item.op) continue;
        send({item.request, item.order, reader, item.tier, model.output_bytes}, input.items,
             depths_[op]);
      }
    }
    leave(item.request);
  }

  void leave(int64_t request) {
    if (--left_[size_t(request)] == 0) finished_s_[size_t(request)] = now_s_;
  }

  // The part of a span that lies in the measured time.
  double measured(double begin_s, double end_s) const {
    return std::max(0.0, std::min(end_s, end_s_) - std::max(begin_s, start_s_));
  }

  ServingTrialResult result() const {
    ServingTrialResult result;
    result.requests = int64_t(arrived_s_.size());
    result.seconds = end_s_ - start_s_;
    for (const ArrivalStream& stream : streams_) result.requests_per_s += stream.per_s;
    add_latencies(result);
    for (const Pool& pool : pools_) {
      result.pools.push_back(
          {pool.op, pool.kind, pool.workers, pool.busy_s / result.seconds / double(pool.slots),
           plan_.deployment.busy_share(problem_, size_t(pool.op), size_t(pool.tier))});
    }
    for (size_t tier = 0; tier + 1 < tiers_.tiers.size(); ++tier) {
      const double bytes_per_s = tiers_.tiers[tier].bytes_per_s;
      if (bytes_per_s <= 0.0) continue;
      result.links.push_back({int(tier), link_busy_s_[tier] / result.seconds,
                              plan_.deployment.link_bytes_per_s[tier] / bytes_per_s});
    }
    return result;
  }

  void add_latencies(ServingTrialResult& result) const {
    std::vector<double> latencies;
    int64_t arrived = 0, finished = 0;
    for (size_t i = 0; i < arrived_s_.size(); ++i) {
      const bool is_finished = finished_s_[i] >= 0.0;
      arrived += arrived_s_[i] >= start_s_;
      finished += is_finished && finished_s_[i] >= start_s_ && finished_s_[i] <= end_s_;
      result.waiting += !is_finished || finished_s_[i] > end_s_;
      if (is_finished && arrived_s_[i] >= start_s_) {
        latencies.push_back(finished_s_[i] - arrived_s_[i]);
      }
    }
    result.finished_per_s = double(finished) / result.seconds;
    result.held_share = arrived > 0 ? double(finished) / double(arrived) : 0.0;
    if (latencies.empty()) return;
    std::sort(latencies.begin(), latencies.end());
    const auto at = [&](double share) {
      return latencies[std::min(size_t(share * double(latencies.size())), latencies.size() - 1)];
    };
    for (const double latency : latencies) result.mean_s += latency / double(latencies.size());
    result.p50_s = at(0.5);
    result.p95_s = at(0.95);
    result.p99_s = at(0.99);
  }

  const ServedPipeline& pipeline_;
  const Tiers& tiers_;
  const ServingPlan& plan_;
  const ServingTrial& trial_;
  DeploymentProblem problem_;
  std::vector<ArrivalStream> streams_;
  RngKey key_;
  std::vector<std::vector<int>> readers_;  // [operator] those that read it
  std::vector<int> depths_;                // [operator] the longest way from a source
  // [operator] how many inputs of an item are there
  std::vector<std::map<std::pair<int64_t, int64_t>, size_t>> joined_;
  std::vector<Pool> pools_;
  std::vector<double> link_free_s_, link_busy_s_;  // [tier]
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t num_events_ = 0;
  double now_s_ = 0.0, start_s_ = 0.0, end_s_ = 0.0;
  std::vector<double> arrived_s_, finished_s_;  // [request]
  std::vector<int64_t> left_;                   // [request] items that are on their way
};

}  // namespace

ServingTrialResult simulate_serving(const ServedPipeline& pipeline, const Tiers& tiers,
                                    const ServingPlan& plan, const ServingTrial& trial) {
  return ServingSimulator(pipeline, tiers, plan, trial).run();
}

}  // namespace trireme
