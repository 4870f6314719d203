#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "schema/run_config_fields.h"

// The sections of a configuration, as lists of fields: name, place, effect and what help says. For
// the files *_fields.cc only.
namespace trireme {

inline constexpr FieldEffect kResults = FieldEffect::Results;
inline constexpr FieldEffect kMesh = FieldEffect::Mesh;
inline constexpr FieldEffect kLayout = FieldEffect::Layout;
inline constexpr FieldEffect kSpeed = FieldEffect::Speed;

class FieldList {
 public:
  void section(std::string_view name) { section_ = name; }

  template <typename T>
  requires(!Choice<T>) void add(std::string_view name, T& value, FieldEffect effect,
                                std::string_view doc, ChoiceNames choices = {}) {
    fields_.push_back({section_, name, doc, effect, choices, &value});
  }
  template <Choice E>
  void add(std::string_view name, E& value, FieldEffect effect, std::string_view doc) {
    const ChoiceField field{reinterpret_cast<unsigned char*>(&value), choice_names<E>()};
    fields_.push_back({section_, name, doc, effect, field.names, field});
  }

  void add_steps(std::string_view name, int64_t& value, FieldEffect effect, std::string_view doc) {
    fields_.push_back({section_, name, doc, effect, {}, StepsField{&value}});
  }

  void add_mixture(std::string_view name, MixtureField value, FieldEffect effect,
                   std::string_view doc) {
    fields_.push_back({section_, name, doc, effect, {}, value});
  }

  void add_layers(std::string_view name, std::vector<LayerRule>& value, FieldEffect effect,
                  std::string_view doc) {
    fields_.push_back({section_, name, doc, effect, {}, LayersField{&value}});
  }

  std::vector<ConfigField> take() { return std::move(fields_); }

 private:
  std::string_view section_;
  std::vector<ConfigField> fields_;
};

void add_model_fields(FieldList& list, ModelConfig& model);
void add_data_fields(FieldList& list, DataConfig& data);
void add_batch_fields(FieldList& list, BatchConfig& batch);
void add_optim_fields(FieldList& list, OptimConfig& optim);
void add_parallel_fields(FieldList& list, ParallelConfig& parallel);
void add_memory_fields(FieldList& list, MemoryConfig& memory);
void add_precision_and_checkpoint_fields(FieldList& list, RunConfig& config);
void add_run_fields(FieldList& list, RunSection& run);
void add_trace_fields(FieldList& list, TraceConfig& trace);

}  // namespace trireme
