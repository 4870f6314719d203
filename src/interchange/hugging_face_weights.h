#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "interchange/foreign_family.h"
#include "interchange/foreign_tensor.h"

namespace trireme {

// The tensors of all safetensors files of a folder by their canonical names.
class HuggingFaceWeights {
 public:
  // Reads the headers of model.safetensors, or of the files that model.safetensors.index.json
  // names.
  static Result<HuggingFaceWeights> open(const std::string& folder, ForeignFamily family);

  bool has(const std::string& name) const { return places_.count(name) > 0; }
  int64_t num_tensors() const { return static_cast<int64_t>(places_.size()); }

  // Checks that every tensor of `tensors` exists with its shape. Other tensors are refused, except
  // buffers and a head that is the embedding.
  Status check(const std::vector<ForeignTensor>& tensors, const ModelSpec& model) const;
  Status read(const std::vector<ForeignTensor>& tensors, const Weights& weights) const;
  // The narrowest dtype that holds all matrices without rounding.
  DType dtype() const;

 private:
  struct Place {
    size_t file = 0;
    const SafetensorsEntry* entry = nullptr;
  };

  Status add_file(const std::string& path, ForeignFamily family);
  Error refuse(const Place& place, ErrorKind kind, const std::string& what) const;
  Status read_tensor(const ForeignTensor& tensor, std::vector<float>& elements) const;

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> places_;
};

struct HuggingFaceWriteOptions;
Status write_hugging_face_weights(const std::vector<ForeignTensor>& tensors, const Weights& weights,
                                  const std::string& folder,
                                  const HuggingFaceWriteOptions& options);

}  // namespace trireme
