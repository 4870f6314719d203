#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/parameter_server.h"
#include "session/step_maker.h"

namespace trireme {

// Training through a parameter server whose workers do not wait for each other
// (parallel.staleness). Rank 0 of `group` is the server and the other ranks are workers; each has
// its own engine. A step is one update per worker, applied in the order in which their pushes
// arrive.

// Rank 0. Its engine holds the parameters and the optimizer state.
class AsynchronousServer : public StepMaker {
 public:
  AsynchronousServer(Group& group, const RunPlan& plan, Engine& engine);

  // Workers push gradients to the server instead of summing them over dp.
  void complete(Predictions& predictions) const override;
  // Tells the workers the position of the run.
  void begin(const TrainPosition& position) override;
  // The server runs no actions of a step, so it records no timeline and meters nothing.
  void direct(TrainerParts& parts) override;
  StepResult step(double lr, bool stop);
  // Stops the workers and returns the measurements of each.
  std::vector<RankMeasurement> finish() override;

 private:
  void update(const PushedGradient& pushed);

  Group& group_;
  const RunPlan& plan_;
  Engine& engine_;
  int num_workers_;
  std::vector<float> parameters_;
  std::vector<int64_t> norm_words_;  // the gradient norm's words
  double lr_ = 0.0;
  StepResult round_;  // sum of the updates of the current step
  std::unique_ptr<ParameterServer> server_;
};

// Every other rank: pulls, computes and pushes until the server stops it.
void run_asynchronous_worker(Group& group, const RunPlan& plan, Engine& engine);

}  // namespace trireme
