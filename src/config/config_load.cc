#include "config/config_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/input_limits.h"
#include "base/nearest_name.h"
#include "config/unknown_key.h"
#include "schema/mesh.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Returns the names of a folder's files with this ending, without the ending.
std::set<std::string> stems_of(const fs::path& folder) {
  std::set<std::string> stems;
  std::error_code ignored;  // a missing folder has no files
  for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored)) {
    if (it->path().extension() == ".toml") stems.insert(it->path().stem().string());
  }
  return stems;
}

// A layer of the configuration: one file, or the whole command line.
struct Layer {
  std::string source;
  std::vector<ConfigAssignment> assignments;
};

RunConfig on_one_rank(RunConfig config) {
  ParallelConfig& parallel = config.parallel;
  parallel.tp = parallel.cp = parallel.pp = parallel.dp = parallel.ep = 1;
  parallel.zero = parallel.chunks = parallel.hsdp_shard = 0;
  parallel.stage_tp.clear();
  parallel.stage_dp.clear();
  parallel.stage_layers.clear();
  parallel.schedule = ParallelConfig{}.schedule;
  config.batch.micro_sequences = 1;
  return config;
}

// Says which kind of file has one of these keys, if it is a key of another kind of file; else
// returns "".
std::string purpose_of(const std::vector<ConfigAssignment>& assignments) {
  struct Kind {
    std::string_view sections[3];
    const char* purpose;
  };
  // Tiers of workers and of links have the same section, so workers are looked for first.
  constexpr Kind kinds[] = {
      {{"workers.", "operators.", "sources."},
       "a file of workers or models that serve, and not a run: give it to `trireme serve-plan`"},
      {{"device.", "devices.", "tiers."},
       "a file that describes a machine or a cluster, and not a run: give it to `trireme plan "
       "RUN.toml --cluster FILE`, or name it with run.hardware"},
      {{"rates.", "causes.", "mttf_hours."},
       "a file of failure rates, and not a run: give it to `trireme plan RUN.toml --failures "
       "FILE`"}};
  for (const Kind& kind : kinds) {
    for (const ConfigAssignment& assignment : assignments) {
      for (const std::string_view section : kind.sections) {
        if (!assignment.key.starts_with(section)) continue;
        return fmt::format("{}: {} is a key of {}", assignment.origin.where(), assignment.key,
                           kind.purpose);
      }
    }
  }
  return "";
}

class Loader {
 public:
  explicit Loader(std::vector<std::string> model_folders)
      : model_folders_(std::move(model_folders)) {}

  Status read_file(const std::string& path) {
    TRIREME_TRY(text, read_config_file(path));
    const fs::path folder = fs::path(path).parent_path();
    near_folders_.push_back(folder.empty() ? "." : folder.string());
    near_folders_.push_back((folder / "models").string());
    near_folders_.push_back((folder / ".." / "models").lexically_normal().string());
    return read_text(text, path);
  }

  Status read_text(std::string_view text, const std::string& source) {
    TRIREME_TRY(assignments, parse_config_text(text, source));
    if (const std::string other = purpose_of(assignments); !other.empty()) return usage(other);
    layers_.push_back({source, std::move(assignments)});
    return Done{};
  }

  void add_layer(const std::string& source, const std::vector<ConfigAssignment>& assignments) {
    if (!assignments.empty()) layers_.push_back({source, assignments});
  }

  // All overrides are one layer, so two contradicting overrides are an error.
  void read_overrides(const std::vector<std::string>& overrides) {
    Layer layer{"--set", {}};
    for (const std::string& text : overrides) {
      Result<ConfigAssignment> assignment = parse_override(text);
      if (assignment.ok()) {
        layer.assignments.push_back(std::move(*assignment));
      } else {
        problems_.push_back(assignment.error().message);
        is_readable_ = false;
      }
    }
    layers_.push_back(std::move(layer));
  }

  // Call it after the files and overrides were read.
  Result<LoadedConfig> finish(const ConfigRequest& request) {
    TRIREME_TRY_DONE(insert_preset());
    for (const Layer& layer : layers_) apply(layer);
    if (is_readable_ && request.ranks) derive_dp(*request.ranks, request.ranks_option);
    if (is_readable_) {
      const RunConfig& config = loaded_.config;
      const RunConfig checked = request.lays_out_anew ? on_one_rank(config) : config;
      for (const ConfigProblem& problem : validate(checked)) {
        // Whether the run can be is for its plan to say: others read a model alone from the file.
        if (problem.kind == ErrorKind::Usage) report(problem);
      }
    }
    if (!problems_.empty()) return usage(fmt::format("{}", fmt::join(problems_, "\n")));
    return std::move(loaded_);
  }

 private:
  // The preset that was named last becomes a layer directly below the layer that names it, and
  // replaces what lower layers say about the model. Mixing half of one model with half of another
  // would give neither.
  Status insert_preset() {
    for (size_t above = layers_.size(); above-- > 0;) {
      const ConfigAssignment* named = nullptr;
      for (const ConfigAssignment& assignment : layers_[above].assignments) {
        if (assignment.key == "model.preset") named = &assignment;
      }
      if (named == nullptr) continue;
      const auto* name = std::get_if<std::string>(&named->value);
      if (name == nullptr || name->empty()) return Done{};  // apply() reports a wrong type
      loaded_.preset = *name;
      TRIREME_TRY(preset, read_preset(*name, named->origin));
      for (size_t below = 0; below < above; ++below) {
        std::erase_if(layers_[below].assignments, [](const ConfigAssignment& assignment) {
          return is_known_model_key(assignment.key);
        });
      }
      layers_.insert(layers_.begin() + static_cast<ptrdiff_t>(above), std::move(preset));
      return Done{};
    }
    return Done{};
  }

  static bool is_known_model_key(const std::string& key) {
    RunConfig config;
    for (const ConfigField& field : config_fields(config)) {
      if (field.section == "model" && field.key() == key) return true;
    }
    return false;
  }

  Result<Layer> read_preset(const std::string& name, const ConfigOrigin& origin) const {
    TRIREME_TRY(path, find_preset(name, origin));
    TRIREME_TRY(text, read_text_file(path, limits::kConfigFileBytes));
    TRIREME_TRY(assignments, parse_config_text(text, path));
    for (const ConfigAssignment& assignment : assignments) {
      if (assignment.key.rfind("model.", 0) == 0 && assignment.key != "model.preset") continue;
      return usage(
          fmt::format("{}: {} is not allowed in a model file, which may only have keys of [model], "
                      "but no preset",
                      assignment.origin.where(), assignment.key));
    }
    return Layer{path, std::move(assignments)};
  }

  Result<std::string> find_preset(const std::string& name, const ConfigOrigin& origin) const {
    std::vector<std::string> folders = near_folders_;
    folders.push_back("models");
    folders.insert(folders.end(), model_folders_.begin(), model_folders_.end());
    for (const std::string& folder : folders) {
      const fs::path path = fs::path(folder) / (name + ".toml");
      std::error_code ignored;
      if (fs::is_regular_file(path, ignored)) return path.string();
    }
    const std::vector<std::string> names = preset_names(folders);
    const std::string nearest = nearest_name(name, names);
    return usage(fmt::format("{}: model.preset = \"{}\": there is no file {}.toml in {}{}",
                             origin.where(), name, name, fmt::join(folders, ", "),
                             !nearest.empty() ? "; did you mean " + nearest + "?"
                             : names.empty()
                                 ? ""
                                 : fmt::format("; there are {}", fmt::join(names, ", "))));
  }

  void apply(const Layer& layer) {
    if (layer.source != "--set") loaded_.files.push_back(layer.source);
    std::set<std::string> seen;
    for (const ConfigAssignment& assignment : layer.assignments) {
      const ConfigField* field = find(assignment.key);
      if (field == nullptr) {
        problems_.push_back(assignment.origin.where() + ": " + unknown_key_message(assignment.key));
        is_readable_ = false;
        continue;
      }
      seen.insert(assignment.key);
      if (assignment.key == "model.preset" &&
          std::holds_alternative<std::string>(assignment.value)) {
        continue;  // it has become its own layer
      }
      const Status status = assign(*field, assignment);
      if (!status.ok()) {
        problems_.push_back(assignment.origin.where() + ": " + status.error().message);
        is_readable_ = is_readable_ && is_misspelt(*field, assignment);
        continue;
      }
      loaded_.history[assignment.key].push_back(assignment);
    }
    // The two keys mean the same, so a layer that sets one of them removes the other from lower
    // layers.
    replace_below(seen, "batch.global_sequences", "batch.global_tokens");
    replace_below(seen, "batch.global_tokens", "batch.global_sequences");
  }

  void replace_below(const std::set<std::string>& seen, const std::string& key,
                     const std::string& other) {
    if (!seen.count(key) || seen.count(other) || !loaded_.history.count(other)) return;
    int64_t& value = other == "batch.global_tokens" ? loaded_.config.batch.global_tokens
                                                    : loaded_.config.batch.global_sequences;
    value = 0;
    loaded_.history.erase(other);
  }

  void derive_dp(int ranks, const std::string& option) {
    ParallelConfig& parallel = loaded_.config.parallel;
    const std::string origin = fmt::format("{} {}", option, ranks);
    const int64_t others = int64_t{parallel.tp} * parallel.pp * parallel.cp;
    if (ranks < 1) {
      problems_.push_back(origin + ": must be at least 1");
      is_readable_ = false;
    } else if (states_places(parallel)) {
      // What is wrong with the key itself is reported with its other rules.
      if (!has_possible_places(parallel) || num_ranks(parallel) == ranks) return;
      problems_.push_back(fmt::format(
          "{}: the places of the pipeline with parallel.{} have {} ranks; change one of them, or "
          "the number of ranks",
          origin, places_text(parallel), num_ranks(parallel)));
      is_readable_ = false;
    } else if (loaded_.history.count("parallel.dp")) {
      if (others * parallel.dp == ranks) return;
      problems_.push_back(fmt::format(
          "{}: parallel.dp * tp * pp * cp = {} * {} * {} * {} = {} ranks; change one of them, or "
          "leave parallel.dp out to derive it",
          origin, parallel.dp, parallel.tp, parallel.pp, parallel.cp, others * parallel.dp));
      is_readable_ = false;
    } else if (others < 1 || ranks % others != 0) {
      const int64_t step = std::max<int64_t>(1, others);
      const int64_t below = ranks / step * step;
      problems_.push_back(
          fmt::format("{}: must be a multiple of parallel.tp * pp * cp = {} * {} * {}; try {}{}",
                      origin, parallel.tp, parallel.pp, parallel.cp,
                      below > 0 ? fmt::format("{} or ", below) : "", below + step));
      is_readable_ = false;
    } else {
      parallel.dp = static_cast<int>(ranks / others);
      loaded_.history["parallel.dp"].push_back(
          {"parallel.dp", std::to_string(parallel.dp), int64_t{parallel.dp}, {origin, 0}});
    }
  }

  void report(const ConfigProblem& problem) {
    const bool is_default = !loaded_.history.count(problem.key);
    problems_.push_back((is_default ? "" : loaded_.where(problem.key) + ": ") + problem.message());
  }

  const ConfigField* find(const std::string& key) const {
    for (const ConfigField& field : fields_) {
      if (field.key() == key) return &field;
    }
    return nullptr;
  }

  std::vector<std::string> model_folders_;
  std::vector<std::string> near_folders_;
  std::vector<Layer> layers_;
  std::vector<std::string> problems_;
  // False after a problem that leaves open what the configuration says. A misspelt choice does not:
  // the rules are still held against the other values, so that all problems come at once.
  bool is_readable_ = true;
  LoadedConfig loaded_;
  std::vector<ConfigField> fields_ = config_fields(loaded_.config);
};

}  // namespace

Result<std::string> read_config_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return usage(path +
                 ": a folder, and a configuration is a file, such as RUN.toml; a run is "
                 "continued with --out RUN_DIR --resume auto");
  }
  if (fs::exists(path, ignored)) return read_text_file(path, limits::kConfigFileBytes);
  const size_t equals = std::min(path.find('='), path.size());
  const std::string set_instead =
      equals == path.size() ? "" : write_set(path.substr(0, equals), path.substr(equals + 1));
  if (!set_instead.empty()) return usage(fmt::format("{}: no such file; {}", path, set_instead));
  const fs::path folder = fs::path(path).parent_path();
  const std::set<std::string> stems = stems_of(folder.empty() ? "." : folder);
  const std::string nearest =
      nearest_name(fs::path(path).stem().string(), {stems.begin(), stems.end()});
  return usage(fmt::format("{}: no such file{}", path,
                           nearest.empty() ? ""
                                           : fmt::format("; did you mean {}?",
                                                         (folder / (nearest + ".toml")).string())));
}

std::string LoadedConfig::where(const std::string& key) const {
  const auto found = history.find(key);
  return found == history.end() ? "default" : found->second.back().origin.where();
}

Error LoadedConfig::located(const Error& error) const {
  const std::string key = error.message.substr(0, error.message.find(" = "));
  return history.count(key) ? with_context(error, where(key)) : error;
}

Result<LoadedConfig> load_config(const ConfigRequest& request) {
  Loader loader(request.model_folders);
  for (const std::string& file : request.files) TRIREME_TRY_DONE(loader.read_file(file));
  loader.add_layer(request.imported_from, request.imported);
  loader.read_overrides(request.overrides);
  return loader.finish(request);
}

Result<LoadedConfig> load_config_text(std::string_view text, const std::string& source,
                                      const std::vector<std::string>& model_folders,
                                      const std::vector<std::string>& overrides) {
  Loader loader(model_folders);
  TRIREME_TRY_DONE(loader.read_text(text, source));
  loader.read_overrides(overrides);
  return loader.finish({});
}

std::vector<std::string> preset_names(const std::vector<std::string>& folders) {
  std::set<std::string> names;
  for (const std::string& folder : folders) names.merge(stems_of(folder));
  return {names.begin(), names.end()};
}

}  // namespace trireme
