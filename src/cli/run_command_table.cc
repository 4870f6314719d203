// The table of commands that start a run.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <span>

#include "cli/agent_command.h"
#include "cli/chaos_command.h"
#include "cli/command_table.h"
#include "cli/launch_command.h"
#include "cli/sweep_command.h"
#include "cli/train_command.h"
#include "watch/crash_point.h"

namespace trireme {
namespace {

Option run_folder_option(std::string& target) {
  return {.name = "out",
          .value_name = "DIR",
          .doc =
              "the run directory; by default runs/ followed by the name of the configuration. "
              "With store://NAME/PATH it is runs/NAME/PATH, and a store has a copy of it",
          .target = &target,
          .completion = Completion::Folder};
}

Option resume_option(std::string& target) {
  return {.name = "resume",
          .value_name = "auto|PATH",
          .doc = "resume from the newest good checkpoint of --out (auto), or from this checkpoint",
          .target = &target,
          .completion = Completion::Folder};
}

// The points at which a running rank can die.
std::string all_crash_points() {
  const std::span<const std::string_view> names(kCrashPointNames);
  return fmt::format("{}", fmt::join(names.subspan(uint32_t(CrashPoint::Compile)), ", "));
}

}  // namespace

Command train_command() {
  auto options = std::make_shared<TrainOptions>();
  return {
      .name = "train",
      .summary = "Train a model.",
      .details =
          "The command writes the resolved configuration, the plan, metrics.jsonl, a trace, a "
          "report and checkpoints into the run directory. After the first SIGINT or SIGTERM it "
          "finishes the step, saves and exits with code 130. After the second one it ends at once, "
          "without saving, with code 5.",
      .arguments = {run_config_argument(options->config.files)},
      .options = {set_option(options->config.overrides),
                  ranks_option(options->config.ranks),
                  run_folder_option(options->out),
                  resume_option(options->resume),
                  {.name = "dry-run",
                   .doc = "print what would run and what it needs, without running it",
                   .target = &options->dry_run},
                  {.name = "check",
                   .doc = "measure the ranks beside each other for some seconds, and exit",
                   .target = &options->check},
                  {.name = "json",
                   .doc = "print the dry run or the check as JSON",
                   .target = &options->json}},
      .examples = {"trireme train configs/tiny-gpt2.toml --out /tmp/run",
                   "trireme train configs/demo.toml --set run.steps=100 --resume auto"},
      .run = [options](CommandIo& io) { return run_train(*options, io); }};
}

Command sweep_command() {
  auto options = std::make_shared<SweepOptions>();
  return {
      .name = "sweep",
      .summary = "Train with several values of a key, one run after the other, and compare them.",
      .details =
          "Every trial is a run of its own in DIR/trial-NNN. A trial that is hopeless beside the "
          "former ones is stopped early, one that diverges ends, and the sweep goes on. Signals "
          "are those of train; the same command continues a sweep where it was. The command "
          "prints a table, and writes DIR/sweep.json and the page DIR/sweep.html. With --lr-range "
          "it is one run whose learning rate rises, and the command suggests a rate.",
      .arguments = {run_config_argument(options->config.files)},
      .options = {{.name = "over",
                   .value_name = "KEY=VALUES",
                   .doc = "a key of RUN.toml and its values: A..B:log5 (five, by equal factors), "
                          "A..B:lin5 (by equal differences), or v1,v2,v3; several of them make a "
                          "grid",
                   .target = &options->over},
                  {.name = "random",
                   .value_name = "N",
                   .doc = "draw N points from the ranges instead of taking the whole grid",
                   .target = &options->random},
                  {.name = "seed",
                   .value_name = "N",
                   .doc = "of the random points",
                   .target = &options->seed},
                  {.name = "no-early-stop",
                   .doc = "train every trial to its last step",
                   .target = &options->no_early_stop},
                  {.name = "grace",
                   .value_name = "SHARE",
                   .doc = "the share of the steps within which no trial is stopped (default 0.25)",
                   .target = &options->grace},
                  {.name = "lr-range",
                   .value_name = "A..B",
                   .doc = "a learning-rate range test: one run whose rate rises from A to B",
                   .target = &options->lr_range},
                  {.name = "steps",
                   .value_name = "N",
                   .doc = "with --lr-range: how many steps it has, instead of run.steps",
                   .target = &options->steps},
                  {.name = "resume",
                   .value_name = "CHECKPOINT",
                   .doc = "a fine-tuning: every trial begins with the weights of this checkpoint, "
                          "as train --resume does",
                   .target = &options->resume,
                   .completion = Completion::Folder},
                  set_option(options->config.overrides),
                  ranks_option(options->config.ranks),
                  {.name = "out",
                   .value_name = "DIR",
                   .doc = "the folder of the sweep (default: runs/ followed by the name of the "
                          "configuration and -sweep, or -lr-range)",
                   .target = &options->out,
                   .completion = Completion::Folder},
                  {.name = "json", .doc = "print sweep.json", .target = &options->json}},
      .examples = {"trireme sweep configs/tiny-gpt2.toml --over optim.lr=1e-4..1e-1:log7",
                   "trireme sweep configs/tiny-gpt2.toml --over optim.lr=1e-4..1e-1:log --random 8",
                   "trireme sweep configs/tiny-gpt2.toml --lr-range 1e-6..1 --steps 200"},
      .run = [options](CommandIo& io) { return run_sweep(*options, io); }};
}

Command launch_command(const Environment& environment) {
  auto options = std::make_shared<LaunchOptions>();
  options->search_path = environment.path;
  return {
      .name = "launch",
      .summary = "Train a model with a process for every rank.",
      .details =
          "The numbers are those of train. The processes run on this host, or on the hosts that "
          "are "
          "named. The command passes SIGINT, SIGTERM and SIGUSR1 on to the ranks, which save and "
          "exit. If a rank dies or hangs, the other ranks keep their processes, the lost one is "
          "started again, and all resume from the newest checkpoint. If a host is gone, its ranks "
          "are started on another one that has free slots, or the run resumes with fewer ranks "
          "in another layout, until hosts come back. A "
          "failure that would come again ends the run: the command names the rank that failed "
          "first and ends with its exit code. On one host, the agent that keeps the ranks is a "
          "child of the command, and another one takes its place if it is killed. If the command "
          "itself is killed, its ranks are killed, too; those of other hosts go on.",
      .arguments = {run_config_argument(options->config.files)},
      .options =
          {set_option(options->config.overrides),
           ranks_option(options->config.ranks),
           run_folder_option(options->out),
           resume_option(options->resume),
           {.name = "check",
            .doc = "measure compute, memory, disk and links of every host beside the others, name "
                   "the odd ones, and exit: code 5 if there is one",
            .target = &options->check},
           {.name = "json", .doc = "print the check as JSON", .target = &options->json},
           {.name = "max-restarts",
            .value_name = "N",
            .doc = "how many failures within an hour the run survives; 0: the first one ends it",
            .target = &options->max_restarts},
           {.name = "on-loss",
            .value_name = "WAY",
            .doc = "start a lost rank again, or resume with fewer ranks",
            .target = &options->on_loss,
            .choices = {"respawn", "shrink"}},
           {.name = "layouts",
            .value_name = "WHICH",
            .doc = "the layouts for fewer ranks: all that keep the batch and the numbers, those "
                   "with a smaller parallel.dp, or none (the run ends)",
            .target = &options->layouts,
            .choices = {"any", "dp", "same"}},
           {.name = "hosts",
            .value_name = "LIST",
            .doc = "hosts for the ranks, each with its slots: a,b:2,c; localhost is this host",
            .target = &options->hosts},
           {.name = "hostfile",
            .value_name = "FILE",
            .doc = "a file with one host in each line: HOST, or HOST slots=N domain=NAME; hosts of "
                   "one "
                   "domain, such as a rack, may fail together",
            .target = &options->hostfile,
            .completion = Completion::File},
           {.name = "agents",
            .value_name = "N",
            .doc = "wait for N hosts that join by themselves: trireme agent",
            .target = &options->agents},
           {.name = "spares",
            .value_name = "K",
            .doc = "hosts that have no ranks until another host is gone",
            .target = &options->spares},
           {.name = "listen",
            .value_name = "ADDRESS",
            .doc = "HOST or HOST:PORT of this host, as other hosts reach it",
            .target = &options->listen},
           {.name = "ssh",
            .value_name = "COMMAND",
            .doc = "the command that starts a program on another host",
            .target = &options->ssh},
           {.name = "mpirun",
            .value_name = "COMMAND",
            .doc = "the command mpirun with its options, which starts the ranks if run.backend is "
                   "\"mpi\"",
            .target = &options->mpirun},
           {.name = "coord",
            .value_name = "STORE",
            .doc = "where the hosts agree: file:DIR, or etcd:HOST:PORT (default: the folder coord "
                   "in that of the run)",
            .target = &options->coord},
           {.name = "lease",
            .value_name = "SECONDS",
            .doc = "after how long without a sign of life a host counts as gone (default 3)",
            .target = &options->lease_s}},
      .examples = {"trireme launch configs/tiny-gpt2.toml --ranks 2 --out /tmp/run"},
      .run = [options](CommandIo& io) { return run_launch(*options, io); }};
}

Command chaos_command() {
  auto options = std::make_shared<ChaosOptions>();
  return {
      .name = "chaos",
      .summary = "Disturb a run of trireme launch, and show that its numbers stay the same.",
      .details =
          "The run is done twice, as trireme launch does it: undisturbed, and under faults whose "
          "moments and targets follow from --seed. The losses, gradient norms, weights and state "
          "of the optimizer of both are compared bit by bit. The command prints every fault and "
          "what it has led to, how much of the time was effective, and how much is predicted from "
          "the rate of the faults and the measured recoveries. The exit code is 0 only if every "
          "fault was survived and all bits are equal. Faults that this machine cannot inject are "
          "refused.",
      .arguments = {run_config_argument(options->config.files)},
      .options = {set_option(options->config.overrides),
                  ranks_option(options->config.ranks),
                  {.name = "faults",
                   .value_name = "LIST",
                   .doc =
                       "kill (SIGKILL to a rank), stop (SIGSTOP to a rank), partition (a host is "
                       "cut off), disk (that of the checkpoints is full for a while), flip (a "
                       "rank is killed and a bit of the newest checkpoint changes), point (a rank "
                       "dies at a named point, see --points), agent (SIGKILL to the agent, with "
                       "which all ranks die); partition and disk need root",
                   .target = &options->faults},
                  {.name = "points",
                   .value_name = "LIST",
                   .doc = "where ranks die with --faults point, in turn (default: all points that "
                          "the run reaches, each once): " +
                          all_crash_points(),
                   .target = &options->points},
                  {.name = "mtbf",
                   .value_name = "SECONDS",
                   .doc = "mean time between two faults",
                   .target = &options->mtbf_s},
                  {.name = "seed",
                   .value_name = "N",
                   .doc = "of the moments and targets of the faults",
                   .target = &options->seed},
                  {.name = "most-faults",
                   .value_name = "N",
                   .doc = "no fault comes after so many",
                   .target = &options->most_faults},
                  {.name = "steps",
                   .value_name = "N",
                   .doc = "how many steps the run has, instead of run.steps",
                   .target = &options->steps},
                  {.name = "duration",
                   .value_name = "SECONDS",
                   .doc = "the undisturbed run ends after this time, and the disturbed one after "
                          "as many steps",
                   .target = &options->duration_s},
                  {.name = "out",
                   .value_name = "DIR",
                   .doc = "for the folders oracle and storm of the two runs (default: runs/ "
                          "followed by the name of the configuration and -chaos)",
                   .target = &options->out,
                   .completion = Completion::Folder},
                  json_option(options->json)},
      .examples =
          {"trireme chaos configs/tiny-gpt2.toml --ranks 4 --steps 2000 --mtbf 1 --faults kill"},
      .run = [options](CommandIo& io) { return run_chaos(*options, io); }};
}

Command agent_command() {
  auto options = std::make_shared<AgentOptions>();
  return {.name = "agent",
          .summary = "Run ranks of a trireme launch of another host on this host.",
          .details =
              "The secret of the job is read from the variable TRIREME_SECRET, or from the "
              "first line of standard input. The agent stays until the job is over, and may lead "
              "it if the launcher is gone. The first SIGINT or SIGTERM lets the ranks save and "
              "leave this host, the second one ends them at once.",
          .options = {{.name = "join",
                       .value_name = "ADDRESS",
                       .doc = "HOST:PORT at which the launcher or another agent of the job listens",
                       .target = &options->leader},
                      {.name = "listen",
                       .value_name = "ADDRESS",
                       .doc = "HOST or HOST:PORT of this host, as other hosts reach it and its "
                              "ranks (default: the interface by which it reaches --join)",
                       .target = &options->listen},
                      {.name = "name",
                       .value_name = "HOST",
                       .doc = "the name of this host in the job, instead of its host name",
                       .target = &options->name},
                      {.name = "slots",
                       .value_name = "N",
                       .doc = "how many ranks may run here; 0: the launcher decides",
                       .target = &options->slots},
                      {.name = "domain",
                       .value_name = "NAME",
                       .doc = "what this host fails together with, such as its rack",
                       .target = &options->domain},
                      {.name = "wait",
                       .value_name = "SECONDS",
                       .doc = "how long to try to join",
                       .target = &options->wait_s}},
          .examples = {"srun trireme agent --join node1:7070"},
          .run = [options](CommandIo& io) { return run_agent(*options, io); }};
}

}  // namespace trireme
