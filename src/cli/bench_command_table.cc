// The table of the commands that measure or compare with measurements, with their options.

#include <memory>

#include "cli/bench_comm_command.h"
#include "cli/bench_kernels_command.h"
#include "cli/bench_train_command.h"
#include "cli/calibrate_command.h"
#include "cli/command_table.h"
#include "cli/reproduce_alpa.h"
#include "cli/reproduce_command.h"
#include "kernels/bench.h"
#include "reproduce/reproduce.h"

namespace trireme {
namespace {

Command bench_train_command() {
  auto options = std::make_shared<BenchTrainOptions>();
  return {.name = "train",
          .summary = "Time whole training steps.",
          .arguments = {run_config_argument(options->config.files)},
          .options = {set_option(options->config.overrides),
                      ranks_option(options->config.ranks),
                      {.name = "steps",
                       .value_name = "N",
                       .doc = "number of timed steps; 0: as many as take a few seconds",
                       .target = &options->steps},
                      {.name = "ops",
                       .doc = "also the time of every op in the steps",
                       .target = &options->times_ops},
                      json_option(options->json)},
          .run = [options](CommandIo& io) { return run_bench_train(*options, io); }};
}

std::vector<std::string> kernel_families() {
  std::vector<std::string> names;
  for (const BenchFamily& family : bench_families()) names.push_back(family.name);
  return names;
}

Command bench_kernels_command() {
  auto options = std::make_shared<BenchKernelsOptions>();
  return {.name = "kernels",
          .summary = "Time kernels and compare them with the measured ceilings of this machine.",
          .options = {{.name = "family",
                       .value_name = "NAME",
                       .doc = "time only this family",
                       .target = &options->family,
                       .choices = kernel_families()},
                      {.name = "filter",
                       .value_name = "TEXT",
                       .doc = "time only rows whose name contains this text",
                       .target = &options->filter},
                      {.name = "isa",
                       .value_name = "NAME",
                       .doc = "the instruction set; by default the best that the CPU has",
                       .target = &options->isa,
                       .choices = {"avx2", "avx512", "avx512_bf16", "amx_bf16", "reference"}},
                      threads_option(options->threads),
                      json_option(options->json)},
          .run = [options](CommandIo& io) { return run_bench_kernels(*options, io); }};
}

Command bench_comm_command() {
  auto options = std::make_shared<BenchCommOptions>();
  return {
      .name = "comm",
      .summary = "Run one collective, verify its result and time it.",
      .options =
          {{.name = "op",
            .value_name = "OP",
            .doc = "the collective",
            .target = &options->op,
            .choices = {"all_reduce", "reduce", "broadcast", "scatter", "gather", "all_gather",
                        "reduce_scatter", "all_to_all", "barrier"}},
           {.name = "algorithm",
            .value_name = "ALG",
            .doc = "parameter_server, naive, ring, tree, doubling, halving_doubling, hierarchical, "
                   "canonical, shared, native or auto; not every collective has all of them",
            .target = &options->algorithm},
           {.name = "ranks",
            .value_name = "N",
            .doc = "number of ranks; under mpirun, 0 or the size of the job",
            .target = &options->ranks},
           {.name = "elements",
            .value_name = "M",
            .doc = "number of elements in the full vector: 1,024 if left out; with --table, the "
                   "only size",
            .target = &options->elements},
           {.name = "dtype",
            .value_name = "TYPE",
            .doc = "dtype of the elements",
            .target = &options->dtype,
            .choices = {"fp32", "bf16", "int32", "int64"}},
           {.name = "reduction",
            .value_name = "NAME",
            .doc = "operation of all_reduce, reduce and reduce_scatter",
            .target = &options->reduction,
            .choices = {"sum", "mean", "max", "min"}},
           {.name = "backend",
            .value_name = "NAME",
            .doc = "ranks as threads, or as processes under mpirun",
            .target = &options->backend,
            .choices = {"local", "mpi"}},
           {.name = "ranks-per-node",
            .value_name = "N",
            .doc = "hierarchical: number of ranks on one node; 0: as detected",
            .target = &options->ranks_per_node},
           {.name = "root",
            .value_name = "RANK",
            .doc = "root of reduce, broadcast, scatter and gather",
            .target = &options->root},
           {.name = "private",
            .doc = "mpi: use buffers that other ranks cannot access directly",
            .target = &options->private_memory},
           {.name = "compare",
            .doc = "compare shared, ring and native with the copy limit for many sizes",
            .target = &options->compare},
           {.name = "table",
            .doc =
                "print the costs of all algorithms of the collective for 2 to --ranks ranks and "
                "four sizes, line by line: formula and measured bytes, latency, bandwidth, seconds",
            .target = &options->table},
           {.name = "timeout",
            .value_name = "S",
            .doc = "deadline of every wait, in seconds",
            .target = &options->timeout_s},
           json_option(options->json)},
      .examples = {"trireme bench comm --op all_gather --algorithm ring --ranks 4 --json"},
      .run = [options](CommandIo& io) { return exit_code_of(run_bench_comm(*options, io.out)); }};
}

}  // namespace

Command bench_command() {
  return {.name = "bench",
          .summary = "Measure collectives, kernels and training steps on this machine.",
          .subcommands = {bench_comm_command(), bench_kernels_command(), bench_train_command()}};
}

Command calibrate_command() {
  auto options = std::make_shared<CalibrateOptions>();
  return {.name = "calibrate",
          .summary = "Measure this machine and write its hardware file.",
          .options = {{.name = "out",
                       .value_name = "FILE",
                       .doc = "the hardware file to write; by default standard output",
                       .target = &options->out,
                       .completion = Completion::File},
                      {.name = "seconds",
                       .value_name = "S",
                       .doc = "longest time for repeating measurements until they are stable",
                       .target = &options->seconds},
                      threads_option(options->threads)},
          .run = [options](CommandIo& io) { return run_calibrate(*options, io); }};
}

Command reproduce_command() {
  auto options = std::make_shared<ReproduceOptions>();
  std::vector<std::string> names = reproduction_names();
  names.push_back(kAlpaSuite);
  return {
      .name = "reproduce",
      .summary = "Predict published training runs and compare with what was measured.",
      .details =
          "The command plans every run of a published table for the cluster that it ran on, and "
          "prints measured, predicted and error beside two baselines: one constant speed of "
          "each device, and a roofline. Without NAME it prints all tables. \"alpa\" has no "
          "measured "
          "numbers: for each model of that paper it searches a plan op by op, in some minutes "
          "in all.",
      .arguments = {{.name = "NAME",
                     .doc = "the table",
                     .target = &options->name,
                     .required = false,
                     .choices = names}},
      .options = {{.name = "split",
                   .doc = "also print what each predicted step is spent on",
                   .target = &options->split},
                  json_option(options->json)},
      .examples = {"trireme reproduce", "trireme reproduce megatron-t1 --split",
                   "trireme reproduce alpa"},
      .run = [options](CommandIo& io) { return run_reproduce(*options, io); }};
}

}  // namespace trireme
