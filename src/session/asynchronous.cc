#include "session/asynchronous.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/clock.h"

namespace trireme {
namespace {

ParameterServerOptions options_of(const RunPlan& plan) {
  return {.num_servers = 1,
          .num_elements = plan.num_params,
          .staleness = plan.config.parallel.staleness,
          .timeout_s = plan.config.run.comm_timeout_s};
}

// Visits the owned tensors of an engine as one flat vector.
template <typename Visit>
void for_each_owned(Engine& engine, Visit&& visit) {
  int64_t begin = 0;
  for (const OwnedTensors& owned : engine.owned()) {
    visit(owned, begin);
    begin += owned.count;
  }
}

// Messages are fp32, whatever dtype the tensors have; every bf16 is an fp32.
void copy_out(Ctx& ctx, const TensorRef& tensor_N, float* to) {
  ctx.kernels.convert(ctx.stream, {tensor_N, {to, DType::F32, tensor_N.shape}});
}
void copy_in(Ctx& ctx, const float* from, const TensorRef& tensor_N) {
  ctx.kernels.convert(ctx.stream,
                      {{const_cast<float*>(from), DType::F32, tensor_N.shape}, tensor_N});
}

// Sets the owned parameters and the copies that layers read.
void set_params(Engine& engine, const std::vector<float>& params) {
  Ctx& ctx = engine.ctx();
  for_each_owned(engine, [&](const OwnedTensors& owned, int64_t begin) {
    copy_in(ctx, params.data() + begin, owned.master_N);
    if (!owned.param_N) return;
    ctx.kernels.convert(ctx.stream, {owned.master_N, owned.param_N});
  });
}

std::vector<RankMeasurement> gather_from_workers(Group& group, const RankMeasurement& own) {
  std::array<double, 4> values = {double(own.peak_bytes), own.time.compute, own.time.exposed_comm,
                                  double(own.traffic.front().second)};
  std::vector<double> all(values.size() * size_t(group.size()));
  group.all_gather({values.data(), DType::F64, Shape{int64_t(values.size())}},
                   {all.data(), DType::F64, Shape{int64_t(all.size())}});
  std::vector<RankMeasurement> workers;
  for (size_t w = 1; w < size_t(group.size()); ++w) {
    const double* sent = all.data() + w * values.size();
    RankMeasurement worker{.peak_bytes = int64_t(sent[0])};
    worker.time = {.compute = sent[1], .exposed_comm = sent[2], .step = sent[1] + sent[2]};
    worker.time.exposed[0] = sent[2];
    for (const std::string_view axis : kTrafficAxes) worker.traffic.emplace_back(axis, 0);
    worker.traffic.front().second = int64_t(sent[3]);  // dp
    workers.push_back(worker);
  }
  return workers;
}

}  // namespace

AsynchronousServer::AsynchronousServer(Group& group, const RunPlan& plan, Engine& engine)
    : group_(group),
      plan_(plan),
      engine_(engine),
      num_workers_(group.size() - 1),
      parameters_(size_t(plan.num_params)),
      norm_words_(size_t(engine.rank_plan().num_norm_words)) {}

void AsynchronousServer::complete(Predictions& predictions) const {
  RankPrediction& server = predictions.classes.front().prediction;
  server.traffic.front().second = ParameterWorker::sent_bytes(plan_.num_params);  // dp
}

void AsynchronousServer::direct(TrainerParts& parts) {
  parts.trace = nullptr;
  parts.step = [this](double lr, bool stop) { return step(lr, stop); };
}

void AsynchronousServer::begin(const TrainPosition& position) {
  for_each_owned(engine_, [&](const OwnedTensors& owned, int64_t begin) {
    copy_out(engine_.ctx(), owned.master_N, parameters_.data() + begin);
  });
  int64_t next_sample = int64_t(position.next_sample);
  group_.monitored_barrier();  // until the server has read its checkpoint
  group_.broadcast({&next_sample, DType::I64, Shape{1}}, 0);
  server_ = std::make_unique<ParameterServer>(
      group_, options_of(plan_), parameters_,
      [this](std::span<float>, const PushedGradient& pushed) { update(pushed); });
}

void AsynchronousServer::update(const PushedGradient& pushed) {
  engine_.read_grads([&] {
    for_each_owned(engine_, [&](const OwnedTensors& owned, int64_t begin) {
      if (owned.grad_N) copy_in(engine_.ctx(), pushed.gradient.data() + begin, owned.grad_N);
    });
    std::fill(norm_words_.begin(), norm_words_.end(), 0);
    engine_.optimizer().squared_norms(engine_.ctx(), norm_words_);
    const double squared_norm = squared_norm_of(engine_.rank_plan().norm_sum, norm_words_);
    const StepOutput output = engine_.optimizer().update(
        engine_.ctx(), {lr_, std::max(1.0, pushed.values[1]), squared_norm});
    round_.update.grad_norm += output.grad_norm / num_workers_;
    round_.update.skipped = round_.update.skipped && output.skipped;
  });
  for_each_owned(engine_, [&](const OwnedTensors& owned, int64_t begin) {
    copy_out(engine_.ctx(), owned.master_N, parameters_.data() + begin);
  });
  round_.loss_sum += pushed.values[0];
  round_.valid_tokens += int64_t(pushed.values[1]);
}

StepResult AsynchronousServer::step(double lr, bool stop) {
  lr_ = lr;
  round_ = {.stop = stop};
  round_.update.skipped = true;  // stays true if no gradient of this step makes an update
  server_->serve(num_workers_);
  return round_;
}

std::vector<RankMeasurement> AsynchronousServer::finish() {
  server_->dismiss();
  return gather_from_workers(group_, {.traffic = {{"dp", 0}}});
}

void run_asynchronous_worker(Group& group, const RunPlan& plan, Engine& engine) {
  int64_t next_sample = 0;
  group.monitored_barrier();
  group.broadcast({&next_sample, DType::I64, Shape{1}}, 0);
  ParameterWorker worker(group, options_of(plan));
  next_sample += plan.global_sequences / (group.size() - 1) * (group.rank() - 1);
  std::vector<float> params(size_t(plan.num_params)), gradient(params.size());
  int64_t num_steps = 0, computed_ns = 0;
  const int64_t begin_ns = monotonic_ns();
  while (worker.pull(params) != ParameterWorker::kDismissed) {
    const int64_t pulled_ns = monotonic_ns();
    set_params(engine, params);
    // The engine's own update changes nothing, because lr is 0 and the next pull overwrites the
    // parameters.
    const StepResult result = engine.step(uint64_t(next_sample), 0.0);
    engine.read_grads([&] {
      for_each_owned(engine, [&](const OwnedTensors& owned, int64_t begin) {
        if (owned.grad_N) copy_out(engine.ctx(), owned.grad_N, gradient.data() + begin);
      });
    });
    computed_ns += monotonic_ns() - pulled_ns;
    worker.push(gradient, {result.loss_sum, double(result.valid_tokens)});
    next_sample += plan.global_sequences;
    ++num_steps;
  }
  worker.leave();
  const double steps = double(std::max<int64_t>(1, num_steps));
  const double compute_s = double(computed_ns) * 1e-9 / steps;
  const double waited_s = double(monotonic_ns() - begin_ns) * 1e-9 / steps - compute_s;
  RankMeasurement own{.peak_bytes = engine.peak_bytes()};
  own.time = {.compute = compute_s, .exposed_comm = waited_s};
  own.traffic = {{"dp", ParameterWorker::sent_bytes(plan.num_params)}};
  gather_from_workers(group, own);
}

}  // namespace trireme
