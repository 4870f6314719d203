// The table of commands that watch and control a run, and examine its files.

#include <memory>

#include "cli/command_table.h"
#include "cli/failures_command.h"
#include "cli/scrub_command.h"
#include "cli/status_command.h"

namespace trireme {
namespace {

Argument run_dir_argument(std::string& run_dir) {
  return {.name = "RUN_DIR",
          .doc = "the folder of a run of trireme launch",
          .target = &run_dir,
          .completion = Completion::Folder};
}

}  // namespace

Command status_command() {
  auto options = std::make_shared<StatusOptions>();
  return {.name = "status",
          .summary = "Print the ranks, epoch, step and failures of a run of trireme launch.",
          .details =
              "It reads the folder of the run, in which the agent that leads reports every second, "
              "on any host that sees this folder. A job on several hosts can also be asked without "
              "the folder: at HOST:PORT of the launcher (--listen) or of any other agent, with the "
              "secret of the job in the variable TRIREME_SECRET. If that agent does not lead, it "
              "names the one that does, which is asked then.",
          .arguments = {{.name = "RUN_DIR|ADDRESS",
                         .doc = "the folder of a run of trireme launch, or HOST:PORT of an agent",
                         .target = &options->run_dir,
                         .completion = Completion::Folder}},
          .options = {json_option(options->json),
                      {.name = "watch",
                       .doc = "print it again whenever it changes, until the run ends",
                       .target = &options->watch}},
          .examples = {"trireme status /tmp/run", "trireme status /tmp/run --watch",
                       "trireme status node1:7070 --json"},
          .run = [options](CommandIo& io) { return run_status(*options, io); }};
}

Command stop_command() {
  auto options = std::make_shared<StatusOptions>();
  return {.name = "stop",
          .summary = "Ask a run of trireme launch to save and end.",
          .details =
              "A run on one host must be on this one. It ends with exit code 130, as after Ctrl-C.",
          .arguments = {run_dir_argument(options->run_dir)},
          .examples = {"trireme stop /tmp/run"},
          .run = [options](CommandIo& io) { return run_stop(*options, io); }};
}

Command drain_command() {
  auto options = std::make_shared<DrainOptions>();
  return {.name = "drain",
          .summary = "Take a host out of a run of trireme launch.",
          .details =
              "After the step, the ranks save. Those of the host go to another one that has "
              "free slots, or the run goes on with fewer ranks.",
          .arguments = {run_dir_argument(options->run_dir),
                        {.name = "HOST", .doc = "a host of the run", .target = &options->host}},
          .examples = {"trireme drain /tmp/run node2"},
          .run = [options](CommandIo& io) { return run_drain(*options, io); }};
}

Command failures_command() {
  auto options = std::make_shared<FailuresOptions>();
  return {.name = "failures",
          .summary = "Say what has failed in a run, what usually causes it, and what to do.",
          .details =
              "Rules name the class of each failure by what is known about it; a failure that no "
              "rule explains is unknown. Without RUN_DIR, the rules are printed.",
          .arguments = {{.name = "RUN_DIR",
                         .doc = "the folder of a run",
                         .target = &options->run_dir,
                         .required = false,
                         .completion = Completion::Folder}},
          .options = {{.name = "rules",
                       .value_name = "FILE",
                       .doc = "rules on top of the built-in ones, such as failure_rules.toml",
                       .target = &options->rules,
                       .completion = Completion::File},
                      json_option(options->json)},
          .examples = {"trireme failures /tmp/run", "trireme failures /tmp/run --rules my.toml"},
          .run = [options](CommandIo& io) { return run_failures(*options, io); }};
}

Command scrub_command() {
  auto options = std::make_shared<ScrubCommandOptions>();
  return {.name = "scrub",
          .summary = "Verify all checkpoints of a run, and repair what parity can repair.",
          .details =
              "The command reads every byte and compares every checksum. Folders in which hosts "
              "keep checkpoints in their memory are repaired from each other's parity if they are "
              "named together. If something stays damaged, the exit code is 4.",
          .arguments = {{.name = "DIR",
                         .doc = "a run directory, a checkpoint, or a folder of checkpoints",
                         .target = &options->folders,
                         .completion = Completion::Folder}},
          .options = {{.name = "verify-only",
                       .doc = "repair nothing",
                       .target = &options->verifies_only},
                      threads_option(options->threads),
                      json_option(options->json)},
          .examples = {"trireme scrub /tmp/run"},
          .run = [options](CommandIo& io) { return run_scrub(*options, io); }};
}

}  // namespace trireme
