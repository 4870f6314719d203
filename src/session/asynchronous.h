#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/parameter_server.h"
#include "session/step_maker.h"

namespace trireme {

// Training through a parameter server whose workers do not wait for each other
// (parallel.staleness). Rank 0 of `group` serves, the others work; each has an engine of its own.
// A step is as many updates as there are workers, in the order in which their pushes come.

// On rank 0: parameters and the optimizer's state are those of its engine.
class AsynchronousServer : public StepMaker {
 public:
  AsynchronousServer(Group& group, const RunPlan& plan, Engine& engine);

  // Gradients are pushed to a server in the place of being summed over dp.
  void complete(Predictions& predictions) const override;
  // Tells the workers where the run stands.
  void begin(const TrainPosition& position) override;
  // No action of a step runs here: there is no timeline and nothing to meter.
  void direct(TrainerParts& parts) override;
  StepResult step(double lr, bool stop);
  // Sends the workers away and returns what each has measured.
  std::vector<RankMeasurement> finish() override;

 private:
  void update(const PushedGradient& pushed);

  Group& group_;
  const RunPlan& plan_;
  Engine& engine_;
  int num_workers_;
  std::vector<float> parameters_;
  std::vector<int64_t> norm_words_;  // of a gradient's norm
  double lr_ = 0.0;
  StepResult round_;  // of the updates so far
  std::unique_ptr<ParameterServer> server_;
};

// On every other rank: pulls, computes and pushes until the server needs no more.
void run_asynchronous_worker(Group& group, const RunPlan& plan, Engine& engine);

}  // namespace trireme
