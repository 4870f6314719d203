// The table of `trireme serve-plan` with its options.

#include <memory>

#include "cli/command_table.h"
#include "cli/serve_plan_command.h"

namespace trireme {

Command serve_plan_command() {
  auto options = std::make_shared<ServePlanOptions>();
  return {
      .name = "serve-plan",
      .summary = "Choose models of a pipeline and place them on tiers of workers for least cost.",
      .details =
          "The plan holds the rates of the sources, the accuracy and the limits of latency, and "
          "its "
          "data flow only from earlier tiers to later ones. If there is no such plan, the exit "
          "code is 3, and the "
          "message says what would be enough.",
      .arguments = {{.name = "PIPELINE.toml",
                     .doc = "sources, operators and the models that each of them can use",
                     .target = &options->pipeline,
                     .completion = Completion::File}},
      .options = {{.name = "tiers",
                   .value_name = "TIERS.toml",
                   .doc = "the tiers, their links and workers",
                   .target = &options->tiers,
                   .completion = Completion::File},
                  {.name = "accuracy",
                   .value_name = "A",
                   .doc = "the least accuracy, from 0 to 1; by default pipeline.accuracy",
                   .target = &options->accuracy},
                  {.name = "mean-latency",
                   .value_name = "S",
                   .doc = "the longest mean latency of a request, in seconds; by default "
                          "pipeline.mean_latency_s",
                   .target = &options->mean_latency_s},
                  {.name = "p95-latency",
                   .value_name = "S",
                   .doc = "the longest latency of all but the slowest 5 % of the requests, in "
                          "seconds; by default pipeline.p95_latency_s",
                   .target = &options->p95_latency_s},
                  {.name = "seed",
                   .letter = 's',
                   .value_name = "N",
                   .doc = "seed of the arrivals in the simulation",
                   .target = &options->seed},
                  {.name = "svg",
                   .doc = "print a picture of the plan and of the cost by accuracy",
                   .target = &options->svg},
                  json_option(options->json)},
      .examples = {"trireme serve-plan configs/serving/video.toml --tiers "
                   "configs/serving/tiers.toml --accuracy 0.75",
                   "trireme serve-plan configs/serving/speech.toml --tiers "
                   "configs/serving/tiers.toml --svg > plan.svg"},
      .run = [options](CommandIo& io) { return run_serve_plan(*options, io); }};
}

}  // namespace trireme
