// The table of `trireme schedule` with its options.

#include <memory>

#include "cli/command_table.h"
#include "cli/compare_schedules.h"
#include "cli/schedule_command.h"
#include "program/make_schedule.h"

namespace trireme {

Command schedule_command() {
  struct Rows {
    ScheduleOptions options;
    std::string times = "1,1,1,0";
    std::string format = "text";
    std::string compared;
  };
  auto rows = std::make_shared<Rows>();
  ScheduleOptions& options = rows->options;
  std::vector<std::string> kinds = schedule_kinds();
  kinds.push_back("auto");
  return {
      .name = "schedule",
      .summary = "Print, check and draw a pipeline schedule.",
      .arguments = {{.name = "KIND",
                     .doc = "kind of schedule; auto searches one for the given times and memory",
                     .target = &options.kind,
                     .required = false,
                     .choices = kinds}},
      .options = {{.name = "compare",
                   .value_name = "KIND,KIND",
                   .doc = "in place of KIND: compare several kinds on the same ranks and model, "
                          "with --times of 1/P of the model; as text, or as svg one above the "
                          "other",
                   .target = &rows->compared},
                  {.name = "stages",
                   .value_name = "P",
                   .doc = "number of ranks in the pipeline",
                   .target = &options.num_stages},
                  {.name = "microbatches",
                   .value_name = "M",
                   .doc = "number of micro-batches in a step",
                   .target = &options.num_microbatches},
                  {.name = "chunks",
                   .value_name = "V",
                   .doc = "number of stages on each rank; by default that of the kind",
                   .target = &options.num_chunks},
                  {.name = "times",
                   .value_name = "F,B,W,C",
                   .doc = "seconds of forward, input gradient, weight gradient and transfer",
                   .target = &rows->times},
                  {.name = "memory",
                   .value_name = "N",
                   .doc = "auto: largest number of chunk activations alive on a rank; 0: 2 P V",
                   .target = &options.memory_limit},
                  {.name = "format",
                   .value_name = "FORMAT",
                   .doc = "format of the output",
                   .target = &rows->format,
                   .choices = {"text", "jsonl", "svg", "html", "trace"}}},
      .examples = {"trireme schedule zb_h1 --stages 4 --microbatches 8",
                   "trireme schedule dualpipe --stages 4 --microbatches 8 --format svg > p.svg",
                   "trireme schedule zb_v --stages 4 --microbatches 8 --format html > p.html",
                   "trireme schedule --compare 1f1b,zb_h1,dualpipe --stages 4 --microbatches 8"},
      .run = [rows](CommandIo& io) -> Result<int> {
        TRIREME_TRY(times, parse_schedule_times(rows->times));
        TRIREME_TRY(format, parse_schedule_format(rows->format));
        rows->options.times = times;
        rows->options.format = format;
        if (rows->options.kind.empty() == rows->compared.empty()) {
          return Error{ErrorKind::Usage,
                       "give either KIND, such as 1f1b, or --compare with several kinds"};
        }
        if (!rows->compared.empty()) {
          return exit_code_of(compare_schedules(rows->compared, rows->options, io.out));
        }
        return exit_code_of(run_schedule(rows->options, io.out));
      }};
}

}  // namespace trireme
