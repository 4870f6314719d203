#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config_load.h"
#include "serving/serving_files.h"

namespace trireme {

// These structs have what a pipeline file says, before names are resolved. `where` is the place of
// the first words about a part, such as "video.toml:12".
struct WrittenInput {
  std::string name, where;
  double items = 0.0;
};
struct WrittenModel : ServedModel {
  std::string where;
};
struct WrittenOperator {
  std::string name, where;
  double weight = 1.0;
  std::vector<WrittenInput> inputs;
  std::vector<WrittenModel> models;
};
struct WrittenSource : Source {
  std::string where;
};
struct WrittenCombination {
  std::string name, where;
  double accuracy = -1.0;
  std::vector<std::pair<std::string, std::string>> models;  // of an operator
};
struct WrittenPipeline {
  ServedPipeline pipeline;
  std::vector<WrittenSource> sources;
  std::vector<WrittenOperator> operators;
  std::vector<WrittenCombination> combinations;
};

// Takes one line of the file over. Usage error for a key that is unknown or a value out of range.
Status assign_pipeline(WrittenPipeline& written, const ConfigAssignment& assignment);

// These functions append what is wrong, each with its place.
// Sources, operators and models by themselves. `source` is the name of the file.
void check_pipeline(const WrittenPipeline& written, const Tiers& tiers, const std::string& source,
                    std::vector<std::string>& problems);
// Puts every operator behind those that it reads. Returns false, with a problem, for a cycle.
bool sort_operators(WrittenPipeline& written, std::vector<std::string>& problems);

// A question that names what the reader may have meant: "; did you mean NAME?", or the names that
// there are.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& names);

}  // namespace trireme
