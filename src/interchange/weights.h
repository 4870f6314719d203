#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/buffer.h"
#include "graph/param_table.h"
#include "nn/frame.h"
#include "schema/model_spec.h"

namespace trireme {

// The parameters of a whole model in fp32, for conversion between files.
class Weights {
 public:
  explicit Weights(const ModelSpec& model);  // all zeros

  const ModelSpec& model() const { return model_; }
  const std::vector<ParamSpec>& params() const { return params_; }
  Frame frame() const { return Frame(table_, memory_.data()); }
  bool contains(const std::string& name) const { return table_.contains(name); }
  std::span<float> at(const std::string& name) const;
  Shape shape_of(const std::string& name) const { return table_.at(name).shape; }

 private:
  ModelSpec model_;
  std::vector<ParamSpec> params_;
  TensorTable table_;
  Buffer memory_;
};

}  // namespace trireme
