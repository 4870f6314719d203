#include "reproduce/reproduce.h"

#include <fmt/format.h>

#include "base/nearest_name.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

struct NamedTable {
  std::string_view name;
  Result<Reproduction> (*reproduce)();
};

constexpr NamedTable kTables[] = {
    {"megatron-t1", reproduce_megatron_t1},
    {"korthikanti-t5", reproduce_korthikanti_t5},
    {"zero-bubble-t4", reproduce_zero_bubble_t4},
    {"zero-bubble-t5", reproduce_zero_bubble_t5},
    {"vtrain-multi", reproduce_vtrain_multi},
    {"llm-foundry-a100", reproduce_llm_foundry_a100},
    {"llm-foundry-h100", reproduce_llm_foundry_h100},
    {"dgxc-gpt3-h100", reproduce_dgxc_gpt3_h100},
    {"torchtitan-llama", reproduce_torchtitan_llama},
    {"other-runs", reproduce_other_runs},
    {"nccl-all-reduce", reproduce_nccl_all_reduce},
    {"zero-t1", reproduce_zero_t1},
    {"lecture-8xa100", reproduce_lecture_8xa100},
    {"lecture-models", reproduce_lecture_models},
    {"korthikanti-t2", reproduce_korthikanti_t2},
    {"superpod", reproduce_superpod},
};

}  // namespace

std::vector<std::string> reproduction_names() {
  std::vector<std::string> names;
  for (const NamedTable& table : kTables) names.emplace_back(table.name);
  return names;
}

Result<Reproduction> reproduce(std::string_view name) {
  for (const NamedTable& table : kTables) {
    if (table.name != name) continue;
    TRIREME_TRY(reproduction, table.reproduce());
    reproduction.name = name;
    return reproduction;
  }
  const std::vector<std::string> names = reproduction_names();
  const std::string nearest = nearest_name(name, names);
  const std::string meant = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  return Error{ErrorKind::Usage,
               fmt::format("unknown table '{}'{} (one of {})", name, meant, fmt::join(names, " "))};
}

}  // namespace trireme
