// The table of `trireme plan` with its options.

#include <memory>

#include "cli/command_table.h"
#include "cli/plan_command.h"
#include "cli/plan_jobs.h"

namespace trireme {

Command plan_command() {
  auto options = std::make_shared<PlanOptions>();
  Command command = {
      .name = "plan",
      .summary = "Predict parameters, FLOPs, memory and time of a run without running it.",
      .details =
          "If the run does not fit into memory, the exit code is 3. The message names the tensor "
          "and the action that exceed the limit, and the cheapest change that would fit.",
      .arguments = {run_config_argument(options->config.files, false)},
      .options =
          {set_option(options->config.overrides),
           ranks_option(options->config.ranks),
           from_option(options->jobs),
           export_option(options->jobs),
           job_out_option(options->jobs),
           {.name = "cluster",
            .value_name = "FILE",
            .doc = "hardware file to predict for, or the name of one that is built in, such as "
                   "dgx-h100; by default this machine",
            .target = &options->cluster,
            .completion = Completion::File},
           {.name = "search",
            .value_name = "alpa",
            .doc = "search the fastest layouts that fit; varies degrees, ZeRO stage and "
                   "shards, schedule, micro-batch size, recomputation, sequence and context "
                   "parallelism and overlap; \"alpa\": search stages with meshes of their own and "
                   "the role of every op, and compare it with the best uniform plan; --out "
                   "writes what can run",
            .target = &options->search},
           {.name = "pareto",
            .doc = "search, and also list the layouts that nothing beats in both step time "
                   "and memory",
            .target = &options->pareto},
           {.name = "explain",
            .doc = "explain where time and memory go and what alternatives would cost; with "
                   "--search, explain why other layouts were rejected; with --search alpa, "
                   "price every role that an op could have instead",
            .target = &options->explain},
           {.name = "html",
            .value_name = "FILE",
            .doc = "write an HTML page with the timelines, memory and traffic of the ranks",
            .target = &options->html,
            .completion = Completion::File},
           {.name = "as",
            .value_name = "TRAINER",
            .doc = "price the run as this trainer executes it, and print the memory that it "
                   "would hold; only its memory decides then whether the run fits",
            .target = &options->as,
            .choices = {"megatron", "torchtitan", "deepspeed"}},
           {.name = "rank",
            .value_name = "R",
            .doc = "print only this rank as JSON, in the form of an element of \"ranks\"",
            .target = &options->rank},
           {.name = "graph",
            .value_name = "FILE",
            .doc = "draw the graph of every unit of the model with shapes and placements, "
                   "before and after each pass: FILE.svg, .html or .txt; without FILE, "
                   "print it as text; with --rank, draw it for that rank; with --search alpa, "
                   "draw its stages on their ranks (FILE.svg)",
            .target = &options->graph,
            .completion = Completion::File},
           json_option(options->json)},
      .examples =
          {"trireme plan configs/tiny-gpt2.toml --set model.preset=gpt2-1.5b",
           "trireme plan configs/tiny-gpt2.toml --cluster clusters/dgx-a100-80g.toml "
           "--explain",
           "trireme plan configs/tiny-llama.toml --set parallel.tp=2 --graph graph.svg",
           "trireme plan my.toml --cluster clusters/dgx-h100.toml --export megatron -o train.sh",
           "trireme plan --from megatron train.sh --cluster clusters/dgx-h100.toml --search",
           "trireme plan my.toml --ranks 256 --rules --cluster clusters/dgx-a100-80g.toml",
           "trireme plan my.toml --cluster clusters/dgx-h100.toml --tokens 15e12 "
           "--price-per-hour 2.5",
           "trireme plan my.toml --cluster clusters/dgx-h100.toml --slow-rank 5=1.3 "
           "--slow-link cluster=0.5",
           "trireme plan my.toml --cluster clusters/h100-pods-24k.toml --failures llama3 --html "
           "plan.html",
           "trireme plan my.toml --cluster clusters/h100-pods-24k.toml --storage tectonic --code "
           "6+3",
           "trireme plan my.toml --ranks 256 --search --cluster clusters/dgx-a100-80g.toml",
           "trireme plan my.toml --ranks 64 --search alpa --cluster clusters/dgx-a100-80g.toml "
           "--out plan.toml"},
      .run = [options](CommandIo& io) { return run_plan(*options, io); }};
  for (Option& option : advice_options(options->advice)) command.options.push_back(option);
  for (Option& option : goodput_options(options->advice.goodput)) command.options.push_back(option);
  for (Option& option : storage_options(options->advice.storage)) command.options.push_back(option);
  for (Option& option : what_if_options(options->what_if)) command.options.push_back(option);
  return command;
}

}  // namespace trireme
