#include "interchange/peft_adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/file.h"
#include "base/input_limits.h"
#include "checkpoint/convert.h"
#include "checkpoint/safetensors_writer.h"
#include "interchange/peft_config.h"
#include "interchange/peft_modules.h"
#include "interchange/whole_folder.h"

namespace trireme {
namespace {

// Legend: r is the rank of an adapter, and R that of a module. R is r, 3 r if q, k and v of GPT-2
// have adapters of their own, and 2 r if two matrices of latent attention have. C are the columns
// of a matrix, F the rows of a module, and G those of one of its matrices.
struct PeftTensors {
  std::vector<float> a_RC, b_FR;
  int64_t rank = 0;
};

std::string a_of(const std::string& matrix) { return matrix + ".lora_a"; }

// ---- Writing

bool shares_a(const PeftModule& module, const Weights& weights) {
  const std::span<const float> first = weights.at(a_of(module.matrices.front()));
  return std::all_of(module.matrices.begin(), module.matrices.end(), [&](const std::string& name) {
    const std::span<const float> a = weights.at(a_of(name));
    return std::memcmp(a.data(), first.data(), first.size_bytes()) == 0;
  });
}

// The rows of b in the order of the file.
std::vector<float> rows_of_b(const PeftModule& module, const Weights& weights) {
  const ForeignTensor tensor = module.tensor_of_b(weights.model().lora_rank);
  std::vector<float> b_Fr(size_t(tensor.shape.num_elements()));
  gather(tensor, weights, b_Fr);
  return b_Fr;
}

// One adapter of all rows; or, `apart`, the adapters of the matrices as one of their ranks
// together: every matrix reads its own rows of a, so b is zero elsewhere.
PeftTensors tensors_of(const PeftModule& module, const Weights& weights, bool apart) {
  const int64_t r = weights.model().lora_rank;
  const size_t parts = apart ? module.matrices.size() : 1;
  PeftTensors tensors{.rank = r * int64_t(parts)};
  for (size_t part = 0; part < parts; ++part) {
    const std::span<const float> a_rC = weights.at(a_of(module.matrices[part]));
    tensors.a_RC.insert(tensors.a_RC.end(), a_rC.begin(), a_rC.end());
  }
  const std::vector<float> b_Fr = rows_of_b(module, weights);
  if (parts == 1) {
    tensors.b_FR = b_Fr;
    return tensors;
  }
  tensors.b_FR.assign(size_t(module.num_rows() * tensors.rank), 0.0f);
  for (int64_t row = 0; row < module.num_rows(); ++row) {
    std::copy_n(b_Fr.begin() + row * r, r,
                tensors.b_FR.begin() + row * tensors.rank + int64_t(module.matrix_of_row(row)) * r);
  }
  return tensors;
}

struct FileTensor {
  SafetensorsSpec spec;
  std::vector<float> elements;
};

Status write_tensors(std::vector<FileTensor> tensors, const std::string& path) {
  std::sort(tensors.begin(), tensors.end(),
            [](const FileTensor& a, const FileTensor& b) { return a.spec.name < b.spec.name; });
  std::vector<SafetensorsSpec> specs;
  for (const FileTensor& tensor : tensors) specs.push_back(tensor.spec);
  TRIREME_TRY(writer, SafetensorsWriter::create(path, specs, {{"format", "pt"}}));
  std::vector<std::byte> bytes;
  for (const FileTensor& tensor : tensors) {
    bytes.resize(size_t(tensor.spec.bytes()));
    const int64_t bad =
        copy_converted(reinterpret_cast<const std::byte*>(tensor.elements.data()), DType::F32,
                       bytes.data(), tensor.spec.dtype, int64_t(tensor.elements.size()));
    if (bad >= 0) {
      return Error{ErrorKind::Infeasible,
                   fmt::format("{}: element {} of {} is {}, which {} cannot hold; take another "
                               "--dtype",
                               path, bad, tensor.spec.name, tensor.elements[size_t(bad)],
                               name_of(tensor.spec.dtype))};
    }
    TRIREME_TRY_DONE(writer.write(bytes));
  }
  TRIREME_TRY(written, writer.finish());
  (void)written;
  return Done{};
}

ModelSpec base_spec(ModelSpec model) {
  model.lora_rank = 0;
  model.lora_scale = 0.0;
  model.lora_targets = {};
  return model;
}

// The modules that have adapters. An error where only some matrices of a module have one.
Result<std::vector<PeftModule>> adapted_modules(const Weights& weights, ForeignFamily family) {
  std::vector<PeftModule> adapted;
  for (PeftModule& module : peft_modules(base_spec(weights.model()), family)) {
    const auto count =
        std::count_if(module.matrices.begin(), module.matrices.end(),
                      [&](const std::string& name) { return weights.contains(a_of(name)); });
    if (count == 0) continue;
    if (size_t(count) < module.matrices.size()) {
      return Error{
          ErrorKind::Infeasible,
          fmt::format("the module {} of this format holds q, k and v together, and only {} "
                      "of them have adapters (model.lora_targets = \"{}\"): adapt all "
                      "three, or export the merged model with --format hf",
                      module.short_name(), count, to_string(weights.model().lora_targets))};
    }
    adapted.push_back(std::move(module));
  }
  return adapted;
}

// ---- Reading

// The tensors of a file by the names that PeftModule gives them.
class PeftFile {
 public:
  static Result<PeftFile> open(const std::string& path) {
    TRIREME_TRY(file, SafetensorsFile::open(path));
    PeftFile result(std::move(file));
    for (const SafetensorsEntry& entry : result.file_.header().tensors) {
      std::string name = entry.name;
      const size_t adapter =
          name.find(".default.weight");  // of an adapter that was not saved alone
      if (adapter != std::string::npos) name.replace(adapter, std::string::npos, ".weight");
      if (!result.entries_.emplace(name, &entry).second) {
        return damaged(fmt::format("{}: tensor {} exists twice", path, name));
      }
    }
    return result;
  }

  bool has(const std::string& name) const { return entries_.contains(name); }
  // [rows, columns] of a matrix in a dtype that is read.
  Result<std::pair<int64_t, int64_t>> extents(const std::string& name) const {
    const SafetensorsEntry& entry = *entries_.at(name);
    if (entry.extents.size() != 2 || !entry.dtype || !is_convertible(*entry.dtype, DType::F32)) {
      return damaged(fmt::format("{}: {} is {} [{}], and should be a matrix of F32, F16 or BF16",
                                 file_.path(), name, entry.dtype_name,
                                 fmt::join(entry.extents, ", ")));
    }
    return std::pair(entry.extents[0], entry.extents[1]);
  }
  Result<std::vector<float>> read(const std::string& name) {
    const SafetensorsEntry& entry = *entries_.at(name);
    read_.insert(name);
    std::vector<std::byte> bytes(size_t(entry.end - entry.begin));
    TRIREME_TRY_DONE(file_.read(entry, 0, bytes));
    std::vector<float> elements(bytes.size() / size_t(size_of(*entry.dtype)));
    const int64_t bad =
        copy_converted(bytes.data(), *entry.dtype, reinterpret_cast<std::byte*>(elements.data()),
                       DType::F32, int64_t(elements.size()));
    if (bad < 0) return elements;
    return damaged(fmt::format("{}: {} has a NaN or Inf at element {}", file_.path(), name, bad));
  }
  // An error if a tensor belongs to no module that was read.
  Status check_all_read() const {
    for (const auto& [name, entry] : entries_) {
      if (read_.contains(name)) continue;
      return Error{ErrorKind::Infeasible,
                   fmt::format("{}: tensor {} is no adapter of a matrix of a layer of this model",
                               file_.path(), entry->name)};
    }
    return Done{};
  }

 private:
  explicit PeftFile(SafetensorsFile file) : file_(std::move(file)) {}
  SafetensorsFile file_;
  std::map<std::string, const SafetensorsEntry*> entries_;
  std::set<std::string> read_;
};

Result<PeftTensors> read_module(PeftFile& file, const PeftModule& module, int64_t r) {
  TRIREME_TRY(a_extents, file.extents(module.a_name()));
  TRIREME_TRY(b_extents, file.extents(module.b_name()));
  const int64_t R = a_extents.first;
  const bool is_rank =
      R == r || (module.matrices.size() > 1 && R == int64_t(module.matrices.size()) * r);
  if (!is_rank || a_extents.second != module.columns || b_extents.first != module.num_rows() ||
      b_extents.second != R) {
    return damaged(
        fmt::format("the adapter of {} is [{}, {}] and [{}, {}]; with r = {} it should be [{}, {}] "
                    "and [{}, {}]",
                    module.name, a_extents.first, a_extents.second, b_extents.first,
                    b_extents.second, r, r, module.columns, module.num_rows(), r));
  }
  TRIREME_TRY(a_RC, file.read(module.a_name()));
  TRIREME_TRY(b_FR, file.read(module.b_name()));
  return PeftTensors{std::move(a_RC), std::move(b_FR), R};
}

// Matrices of one module have the same a, unless the module has the rank of all together and b is
// zero outside of each one's block.
Status put_adapters(const PeftModule& module, const PeftTensors& tensors, const Weights& weights) {
  const int64_t r = weights.model().lora_rank, C = module.columns;
  const bool apart = tensors.rank > r;
  std::vector<float> b_Fr(size_t(module.num_rows() * r), 0.0f);
  const auto first_of = [&](size_t part) { return apart ? int64_t(part) * r : 0; };  // of R
  for (size_t part = 0; part < module.matrices.size(); ++part) {
    std::copy_n(tensors.a_RC.begin() + first_of(part) * C, r * C,
                weights.at(a_of(module.matrices[part])).begin());
  }
  for (int64_t row = 0; row < module.num_rows(); ++row) {
    const int64_t first = first_of(module.matrix_of_row(row));
    for (int64_t k = 0; k < tensors.rank; ++k) {
      const float b = tensors.b_FR[size_t(row * tensors.rank + k)];
      const bool is_own = k >= first && k < first + r;
      if (is_own) b_Fr[size_t(row * r + k - first)] = b;
      if (is_own || b == 0.0f) continue;
      return Error{ErrorKind::Infeasible,
                   fmt::format("the adapter of {} has rank {} for {} matrices together, which no "
                               "adapters of rank {} of each of them are",
                               module.name, tensors.rank, module.matrices.size(), r)};
    }
  }
  scatter(module.tensor_of_b(r), b_Fr, weights);
  return Done{};
}

// The matrices that have adapters, which must be the same in every layer.
Result<LoraTargets> targets_in(const PeftFile& file, const std::vector<PeftModule>& modules,
                               const std::string& folder) {
  LoraTargets targets;
  std::map<std::string, std::pair<int64_t, int64_t>> found;  // by short name: adapted, all
  for (const PeftModule& module : modules) {
    auto& [adapted, all] = found[module.short_name()];
    ++all;
    if (!file.has(module.a_name()) || !file.has(module.b_name())) continue;
    ++adapted;
    for (const LoraTarget target : module.targets) targets.add(target);
  }
  for (const auto& [name, counts] : found) {
    if (counts.first == 0 || counts.first == counts.second) continue;
    return Error{
        ErrorKind::Infeasible,
        fmt::format("{}: {} has adapters in {} of {} layers; a model has them in all or none",
                    folder, name, counts.first, counts.second)};
  }
  if (!targets.empty()) return targets;
  return Error{ErrorKind::Infeasible,
               folder + ": no adapter belongs to a matrix of a layer of this model"};
}

}  // namespace

Status write_peft_adapters(const InterchangeModel& model, const std::string& folder, DType dtype) {
  const Weights& weights = model.weights;
  const ModelSpec& spec = weights.model();
  if (!spec.has_adapters()) {
    return usage(
        "--format peft: the model has no adapters (model.lora_rank = 0); take another "
        "format");
  }
  TRIREME_TRY(family, foreign_family(base_spec(spec)));
  TRIREME_TRY(modules, adapted_modules(weights, family));
  PeftConfig config{.rank = spec.lora_rank, .alpha = spec.lora_scale * double(spec.lora_rank)};
  config.is_transposed = family == ForeignFamily::Gpt2;
  std::set<std::string> names;
  for (const PeftModule& module : modules) {
    names.insert(module.short_name());
    if (module.matrices.size() == 1 || shares_a(module, weights)) continue;
    config.wider_modules[module.short_name()] = int64_t(module.matrices.size());
  }
  config.modules = {names.begin(), names.end()};
  std::vector<FileTensor> tensors;
  for (const PeftModule& module : modules) {
    const bool apart = config.wider_modules.contains(module.short_name());
    PeftTensors own = tensors_of(module, weights, apart);
    tensors.push_back(
        {{module.a_name(), dtype, Shape{own.rank, module.columns}}, std::move(own.a_RC)});
    tensors.push_back(
        {{module.b_name(), dtype, Shape{module.num_rows(), own.rank}}, std::move(own.b_FR)});
  }
  const std::string config_text = print_peft_config(config);
  return write_whole_folder(folder, [&](const std::string& temporary) -> Status {
    TRIREME_TRY_DONE(write_file_atomically(temporary + "/" + kPeftConfigFile, config_text));
    return write_tensors(std::move(tensors), temporary + "/" + kPeftWeightsFile);
  });
}

Result<InterchangeModel> read_peft_adapters(InterchangeModel base, const std::string& folder) {
  if (base.weights.model().has_adapters()) {
    return usage("--adapters: the base model has adapters already; name a model without");
  }
  TRIREME_TRY(text, read_text_file(folder + "/" + kPeftConfigFile, limits::kSmallFileBytes));
  const Result<PeftConfig> config = parse_peft_config(text);
  if (!config.ok()) return with_context(config.error(), folder);
  TRIREME_TRY(family, foreign_family(base.weights.model()));
  TRIREME_TRY(file, PeftFile::open(folder + "/" + kPeftWeightsFile));
  const std::vector<PeftModule> modules = peft_modules(base.weights.model(), family);
  TRIREME_TRY(targets, targets_in(file, modules, folder));
  base.config.lora_rank = config->rank;
  base.config.lora_alpha = config->alpha;
  base.config.lora_targets = to_string(targets);
  const Result<ModelSpec> spec = resolve_model(base.config, base.weights.model().vocab_size);
  if (!spec.ok()) return with_context(spec.error(), folder);
  Weights adapted(*spec);
  for (const ParamSpec& param : base.weights.params()) {
    const std::span<const float> values = base.weights.at(param.name);
    std::copy(values.begin(), values.end(), adapted.at(param.name).begin());
  }
  for (const PeftModule& module : modules) {
    if (!file.has(module.a_name())) continue;
    TRIREME_TRY(tensors, read_module(file, module, config->rank));
    TRIREME_TRY_DONE(put_adapters(module, tensors, adapted));
  }
  TRIREME_TRY_DONE(file.check_all_read());
  base.weights = std::move(adapted);
  return base;
}

}  // namespace trireme
