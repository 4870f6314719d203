#include "cli/plan_graph.h"

#include <fmt/format.h>

#include <filesystem>
#include <ostream>

#include "base/file.h"
#include "graph/graph_text.h"
#include "observe/draw_graph.h"

namespace trireme {
namespace {

std::string ending_of(const std::string& file) {
  return std::filesystem::path(file).extension().string();
}

std::string graph_file_text(const PlanOptions& options, const RunPlan& plan,
                            const StageShape& shape) {
  const std::vector<UnitPasses> units = unit_passes(plan.model, shape);
  const std::string ending = prints_graph(options) ? ".txt" : ending_of(*options.graph);
  if (ending == ".svg") return draw_units(units, plan.model, shape);
  if (ending == ".txt") return units_text(units, plan.model, shape);
  return graph_page(units, plan.model, shape, name_of_configuration(options));
}

}  // namespace

bool prints_graph(const PlanOptions& options) {
  return options.graph && (options.graph->empty() || *options.graph == "-");
}

Status check_graph_options(const PlanOptions& options) {
  if (!options.graph) return Done{};
  if (prints_graph(options)) {
    if (!options.json) return Done{};
    return Error{ErrorKind::Usage,
                 "--graph prints text and --json prints JSON; name a file, such as --graph "
                 "graph.svg"};
  }
  const std::string ending = ending_of(*options.graph);
  if (ending == ".svg" || ending == ".html" || ending == ".txt") return Done{};
  return Error{ErrorKind::Usage,
               fmt::format("--graph {}: the name must end in .svg, .html or .txt, which says what "
                           "is written",
                           *options.graph)};
}

Status write_graph(const PlanOptions& options, const RunPlan& plan, CommandIo& io) {
  if (!options.graph) return Done{};
  const int rank = options.rank.value_or(0);
  TRIREME_TRY_DONE(check_rank(rank, plan));
  const std::string text = graph_file_text(options, plan, rank_plan(plan, rank).shape);
  if (prints_graph(options)) {
    io.out << text;
    return Done{};
  }
  TRIREME_TRY_DONE(make_folders_of(*options.graph));
  return write_file_atomically(*options.graph, text);
}

}  // namespace trireme
