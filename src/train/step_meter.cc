#include "train/step_meter.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr size_t kKeptSteps = 1000;

constexpr double StepTimes::*kScalarParts[] = {&StepTimes::compute, &StepTimes::exposed_comm,
                                               &StepTimes::bubble,  &StepTimes::step,
                                               &StepTimes::data,    &StepTimes::optimizer};

bool waits_for_a_stage(ActionKind kind) {
  return kind == ActionKind::F || kind == ActionKind::B || kind == ActionKind::BW ||
         kind == ActionKind::W;
}

size_t axis_index(std::string_view name) {
  return size_t(std::find(kTrafficAxes.begin(), kTrafficAxes.end(), name) - kTrafficAxes.begin());
}

}  // namespace

StepMeter::StepMeter(const Engine& engine)
    : engine_(engine),
      steps_(kKeptSteps),
      before_(engine.traffic()),
      bytes_(before_.size()),
      step_bytes_(before_.size()) {}

// Transfers that the step before has begun ahead may still be running.
void StepMeter::begin() {
  if (!engine_.executor().is_ahead()) before_ = engine_.traffic();
}

// Waiting for a neighbouring stage is the pipeline's bubble; all other waiting is for transfers.
void StepMeter::record(const Executor& executor, double step_s) {
  StepTimes times{.step = step_s};
  const Program& program = engine_.rank_plan().program;
  for (size_t i = 0; i < program.size(); ++i) {
    const ActionTime& action = executor.action_times()[i];
    if (waits_for_a_stage(program[i].kind)) times.bubble += double(action.stage_waited_ns) * 1e-9;
    if (program[i].kind == ActionKind::Step || program[i].kind == ActionKind::StepPiece) {
      times.optimizer += double(action.end_ns - action.begin_ns - action.waited_ns) * 1e-9;
    }
    times.data += double(action.read_ns) * 1e-9;
  }
  const auto now = engine_.traffic();
  for (size_t i = 0; i < now.size(); ++i) {
    const auto& [name, traffic] = now[i];
    const Traffic& before = before_[i].second;
    bytes_[i] += traffic.sent_bytes - before.sent_bytes;
    step_bytes_[i] = bytes_[i] / int64_t(num_recorded_ + 1);
    // A rank that is alone on an axis copies to itself there, and waits for nobody.
    const bool is_alone =
        traffic.sent_bytes == before.sent_bytes && traffic.received_bytes == before.received_bytes;
    double waited_s = is_alone ? 0.0 : double(traffic.waited_ns - before.waited_ns) * 1e-9;
    if (name == "pp") waited_s = std::max(0.0, waited_s - times.bubble);
    times.exposed[axis_index(name)] = waited_s;
    times.exposed_comm += waited_s;
  }
  before_ = now;
  times.compute = step_s - times.bubble - times.exposed_comm;
  newest_ = times;
  steps_[num_recorded_++ % kKeptSteps] = times;
}

// The parts are means over one set of steps, because these add up. Medians of each part would not.
StepTimes StepMeter::typical_times() const {
  const size_t end = std::min(num_recorded_, kKeptSteps);
  std::vector<StepTimes> steps(steps_.begin() + (end > 4 ? 2 : 0), steps_.begin() + int64_t(end));
  std::sort(steps.begin(), steps.end(),
            [](const StepTimes& a, const StepTimes& b) { return a.step < b.step; });
  const size_t first = steps.size() / 4, last = steps.size() - first;
  double sum_s = 0.0;
  for (size_t i = first; i < last; ++i) sum_s += steps[i].step;
  StepTimes mean;
  if (sum_s <= 0.0) return mean;
  const double weight = steps[steps.size() / 2].step / sum_s;
  for (size_t i = first; i < last; ++i) {
    for (double StepTimes::*part : kScalarParts) mean.*part += weight * (steps[i].*part);
    for (size_t axis = 0; axis < kTrafficAxes.size(); ++axis) {
      mean.exposed[axis] += weight * steps[i].exposed[axis];
    }
  }
  return mean;
}

std::vector<RankMeasurement> gather_measurements(Engine& engine, const StepMeter& meter) {
  const StepTimes times = meter.typical_times();
  std::vector<double> own = {double(engine.peak_bytes()), double(engine.rank_plan().position)};
  for (double StepTimes::*part : kScalarParts) own.push_back(times.*part);
  own.insert(own.end(), times.exposed.begin(), times.exposed.end());
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
    values += 2;
    for (double StepTimes::*part : kScalarParts) measured.time.*part = *values++;
    for (double& exposed : measured.time.exposed) exposed = *values++;
    for (const auto& axis : axes) measured.traffic.emplace_back(axis.first, int64_t(*values++));
  }
  return ranks;
}

}  // namespace trireme
