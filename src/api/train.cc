#include "trireme/train.h"

#include <atomic>

#include "api/content.h"
#include "api/this_machine.h"
#include "device/host.h"
#include "session/session.h"
#include "trireme/version.h"

namespace trireme::api {
namespace {

// Passes the reports of the run to the caller, and the caller's request to stop to the run.
class CallerObserver : public RunObserver {
 public:
  CallerObserver(const TrainRequest& request, std::atomic<int>& stop)
      : request_(request), stop_(stop) {}

  void on_step(const StepReport& report) override {
    if (!request_.on_step) return;
    const TrainingStep step{report.step,      report.total_steps, report.loss,  report.lr,
                            report.grad_norm, report.tokens,      report.step_s};
    if (!request_.on_step(step)) stop_ = 1;
  }
  void on_message(std::string_view message) override {
    if (request_.on_message) request_.on_message(std::string(message));
  }

 private:
  const TrainRequest& request_;
  std::atomic<int>& stop_;
};

}  // namespace

TrainResult train(const Configuration& configuration, const TrainRequest& request) {
  return guarded([&] {
    const RunConfig& config = configuration.content().config;
    if (config.run.backend != BackendChoice::Local) {
      fail({ErrorKind::Usage,
            "run.backend = \"" + std::string(name_of(config.run.backend)) +
                "\": ranks of the library are threads of this process; use "
                "\"local\", or the program `trireme` under mpirun or `trireme launch`"});
    }
    if (!config.checkpoint.store.empty()) {
      fail({ErrorKind::Usage, "checkpoint.store = \"" + config.checkpoint.store +
                                  "\": only the program `trireme` copies a run into a store; leave "
                                  "it out, and put the run directory with `trireme store put`"});
    }
    std::atomic<int> stop{0};
    CallerObserver observer(request, stop);
    const SessionOptions options{
        .config = config,
        .out_dir = request.out_dir,
        .resume = request.resume ? ResumeMode::Auto : ResumeMode::Fresh,
        .host = this_host(),
        .environment = {{"host", host_name()}, {"cpu", cpu_model()}, {"version", version()}},
        .stop_signals = stop,
        .observers = {&observer}};
    const SessionResult result = value_or_fail(run_session(options));
    return TrainResult{.finished = result.end != TrainEnd::Stopped,
                       .steps = result.position.step,
                       .final_loss = result.final_loss};
  });
}

}  // namespace trireme::api
