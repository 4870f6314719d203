#include "train/step_meter.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr size_t kKeptSteps = 1000;

bool waits_for_a_stage(ActionKind kind) {
  return kind == ActionKind::F || kind == ActionKind::B || kind == ActionKind::BW ||
         kind == ActionKind::W;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + int64_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

StepMeter::StepMeter(const Engine& engine) : engine_(engine), steps_(kKeptSteps) {
  for (const auto& axis : engine.sent_bytes()) sent_before_.push_back(axis.second);
  step_bytes_.resize(sent_before_.size());
}

// Waiting for a neighbouring stage is the pipeline's bubble; all other waiting is for transfers.
void StepMeter::record(const Executor& executor, double step_s) {
  StepTimes times{.step = step_s};
  const Program& program = engine_.rank_plan().program;
  for (size_t i = 0; i < program.size(); ++i) {
    const double waited_s = double(executor.action_times()[i].waited_ns) * 1e-9;
    (waits_for_a_stage(program[i].kind) ? times.bubble : times.exposed_comm) += waited_s;
  }
  times.compute = step_s - times.bubble - times.exposed_comm;
  steps_[num_recorded_++ % kKeptSteps] = times;
  const auto sent = engine_.sent_bytes();
  for (size_t axis = 0; axis < sent.size(); ++axis) {
    step_bytes_[axis] = sent[axis].second - sent_before_[axis];
    sent_before_[axis] = sent[axis].second;
  }
}

StepTimes StepMeter::median_times() const {
  const size_t end = std::min(num_recorded_, kKeptSteps);
  const size_t begin = end > 4 ? 2 : 0;
  const auto median = [&](double StepTimes::*part) {
    std::vector<double> values;
    for (size_t i = begin; i < end; ++i) values.push_back(steps_[i].*part);
    return median_of(std::move(values));
  };
  return {median(&StepTimes::compute), median(&StepTimes::exposed_comm), median(&StepTimes::bubble),
          median(&StepTimes::step)};
}

std::vector<RankMeasurement> gather_measurements(Engine& engine, const StepMeter& meter) {
  const StepTimes times = meter.median_times();
  std::vector<double> own = {double(engine.peak_bytes()),
                             double(engine.rank_plan().position),
                             times.compute,
                             times.exposed_comm,
                             times.bubble,
                             times.step};
  for (int64_t bytes : meter.step_bytes()) own.push_back(double(bytes));
  const int64_t count = int64_t(own.size());
  std::vector<double> all(own.size() * size_t(engine.world().size()));
  engine.world().all_gather({own.data(), DType::F64, Shape{count}},
                            {all.data(), DType::F64, Shape{int64_t(all.size())}});
  std::vector<RankMeasurement> ranks(size_t(engine.world().size()));
  const auto axes = engine.sent_bytes();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const double* values = all.data() + rank * own.size();
    RankMeasurement& measured = ranks[rank];
    measured.peak_bytes = int64_t(values[0]);
    measured.position = int(values[1]);
    measured.time = {values[2], values[3], values[4], values[5]};
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      measured.traffic.emplace_back(axes[axis].first, int64_t(values[6 + axis]));
    }
  }
  return ranks;
}

}  // namespace trireme
