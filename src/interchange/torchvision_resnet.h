#pragma once

#include <string>

#include "base/dtype.h"
#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "interchange/interchange_model.h"

namespace trireme {

// The weights of ResNet-50 and its wide variants as torchvision names and shapes them, in one
// safetensors file: conv1.weight, bn1.running_mean, layer1.0.downsample.0.weight, fc.bias.

// Returns true if the file has the tensors by which such a net begins and ends.
bool is_torchvision_resnet(const SafetensorsHeader& header);

// A net with fewer bottlenecks is read, too, if they are the first ones of ResNet-50. The file does
// not say the size of the images: it is 224, unless write_torchvision_resnet wrote another one.
Result<InterchangeModel> read_torchvision_resnet(const std::string& path);

// Infeasible for models of other families.
Status write_torchvision_resnet(const InterchangeModel& model, const std::string& path,
                                DType dtype);

}  // namespace trireme
