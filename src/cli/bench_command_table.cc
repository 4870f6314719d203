// The options of the benchmark commands, as rows of the table.

#include <memory>

#include "cli/bench_comm_command.h"
#include "cli/bench_kernels_command.h"
#include "cli/bench_train_command.h"
#include "cli/calibrate_command.h"
#include "cli/command_table.h"

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
                       .doc = "timed steps; 0: what takes a few seconds",
                       .target = &options->steps},
                      json_option(options->json)},
          .run = [options](CommandIo& io) { return run_bench_train(*options, io); }};
}

Command bench_kernels_command() {
  auto options = std::make_shared<BenchKernelsOptions>();
  return {.name = "kernels",
          .summary = "Time kernels beside this machine's measured ceilings.",
          .options = {{.name = "family",
                       .value_name = "NAME",
                       .doc = "only this family",
                       .target = &options->family,
                       .choices = {"matmul", "attention", "norm", "activation", "moe", "embedding",
                                   "rope", "loss", "dropout", "elementwise", "optimizer"}},
                      {.name = "filter",
                       .value_name = "TEXT",
                       .doc = "only rows whose name contains it",
                       .target = &options->filter},
                      {.name = "isa",
                       .value_name = "NAME",
                       .doc = "the instruction set; by default the best that the CPU has",
                       .target = &options->isa,
                       .choices = {"avx2", "avx512", "avx512_bf16", "reference"}},
                      threads_option(options->threads),
                      json_option(options->json)},
          .run = [options](CommandIo& io) { return run_bench_kernels(*options, io); }};
}

Command bench_comm_command() {
  auto options = std::make_shared<BenchCommOptions>();
  return {
      .name = "comm",
      .summary = "Run one collective, verify its result and time it.",
      .options = {{.name = "op",
                   .value_name = "OP",
                   .doc = "the collective",
                   .target = &options->op,
                   .choices = {"all_reduce", "reduce", "broadcast", "scatter", "gather",
                               "all_gather", "reduce_scatter", "all_to_all", "barrier"}},
                  {.name = "algorithm",
                   .value_name = "ALG",
                   .doc = "parameter_server, naive, ring, tree, doubling, halving_doubling, "
                          "hierarchical, canonical, shared, native or auto, where it applies",
                   .target = &options->algorithm},
                  {.name = "ranks",
                   .value_name = "N",
                   .doc = "ranks; under mpirun 0 or the size of the job",
                   .target = &options->ranks},
                  {.name = "elements",
                   .value_name = "M",
                   .doc = "of the full vector",
                   .target = &options->elements},
                  {.name = "dtype",
                   .value_name = "TYPE",
                   .doc = "of the elements",
                   .target = &options->dtype,
                   .choices = {"fp32", "bf16", "int32", "int64"}},
                  {.name = "reduction",
                   .value_name = "NAME",
                   .doc = "of all_reduce, reduce and reduce_scatter",
                   .target = &options->reduction,
                   .choices = {"sum", "mean", "max", "min"}},
                  {.name = "backend",
                   .value_name = "NAME",
                   .doc = "ranks as threads, or as processes under mpirun",
                   .target = &options->backend,
                   .choices = {"local", "mpi"}},
                  {.name = "ranks-per-node",
                   .value_name = "N",
                   .doc = "nodes of hierarchical; 0: as found",
                   .target = &options->ranks_per_node},
                  {.name = "root",
                   .value_name = "RANK",
                   .doc = "of reduce, broadcast, scatter and gather",
                   .target = &options->root},
                  {.name = "private",
                   .doc = "mpi: buffers that peers do not reach",
                   .target = &options->private_memory},
                  {.name = "compare",
                   .doc = "shared, ring, native and the copy limit by size",
                   .target = &options->compare},
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
          .summary = "Measure this machine.",
          .subcommands = {bench_comm_command(), bench_kernels_command(), bench_train_command()}};
}

Command calibrate_command() {
  auto options = std::make_shared<CalibrateOptions>();
  return {.name = "calibrate",
          .summary = "Measure this machine and write its hardware file.",
          .options = {{.name = "out",
                       .value_name = "FILE",
                       .doc = "the hardware file; by default standard output",
                       .target = &options->out,
                       .completion = Completion::File},
                      threads_option(options->threads)},
          .run = [options](CommandIo& io) { return run_calibrate(*options, io); }};
}

}  // namespace trireme
