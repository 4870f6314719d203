#include "session/agree_on_plan.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "comm/gather_text.h"

namespace trireme {
namespace {

// The parts that must be equal on all ranks, the most general part first.
std::vector<std::pair<std::string, std::string>> parts_of(const RunPlan& plan) {
  const auto text = [&](const Program& program) {
    return to_string(program, plan.schedule.num_chunks);
  };
  const Mesh& mesh = plan.mesh;
  std::vector<std::pair<std::string, std::string>> parts = {
      {"the mesh", fmt::format("{} of tp {} dp {} ep {} {}", degrees_text(mesh), mesh.tp, mesh.dp,
                               mesh.ep, to_string(mesh.order))}};
  std::vector<int64_t> layers;
  for (const StageSpec& stage : plan.stages) layers.push_back(stage.num_layers);
  parts.emplace_back("the layers of the stages", fmt::format("{}", fmt::join(layers, " ")));
  // Ranks that share a layer run the same of its transfers again.
  parts.emplace_back("the choice of values that are computed again",
                     fmt::format("{} {}", name_of(plan.shape.recompute), plan.shape.again));
  parts.emplace_back("the buffer of checkpoint.asynchronous",
                     plan.takes_snapshots ? "taken" : "none");
  for (const RankPlan& rank : plan.pipeline) {
    parts.emplace_back(fmt::format("the program of pipeline rank {}", rank.coords.pp),
                       text(rank.program));
    parts.emplace_back(fmt::format("the evaluation of pipeline rank {}", rank.coords.pp),
                       text(rank.eval_program));
  }
  parts.emplace_back("the classes of ranks", fmt::format("{}", fmt::join(plan.class_of, " ")));
  return parts;
}

// Returns one line for each part: its hash and its name.
std::string plan_lines(const RunPlan& plan) {
  std::string lines;
  for (const auto& [name, text] : parts_of(plan)) {
    lines += fmt::format("{} {}\n", hex64(hash64(text)), name);
  }
  return lines;
}

// Returns the name on the first line that differs.
std::string first_difference(const std::string& a, const std::string& b) {
  for (size_t begin = 0; begin < a.size();) {
    const size_t end = a.find('\n', begin);
    const std::string line = a.substr(begin, end - begin);
    if (b.compare(begin, line.size() + 1, line + "\n") != 0) return line.substr(line.find(' ') + 1);
    begin = end + 1;
  }
  return "the number of pipeline ranks";
}

}  // namespace

Status agree_on_plan(World& world, const RunPlan& plan) {
  const std::string own = plan_lines(plan);
  const std::vector<std::string> hashes = gather_text(world.group(), hex64(hash64(own)));
  for (size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    // All ranks take this branch.
    const std::vector<std::string> lines = gather_text(world.group(), own);
    return Error{ErrorKind::Usage,
                 fmt::format("rank 0 and rank {} have compiled different plans: {} differs. The "
                             "configuration, the free memory or the file of run.hardware "
                             "is not the same on their hosts; set memory.limit_bytes and give all "
                             "hosts the same files",
                             rank, first_difference(lines[0], lines[rank]))};
  }
  return Done{};
}

}  // namespace trireme
