#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "schema/model_spec.h"
#include "session/session_data.h"

namespace trireme {

// Number of classes of the configured set of images; 0 for generated images.
Result<int64_t> num_image_classes(const RunConfig& config);

// The images of a set in the order of an epoch.
struct EvaluatedImages {
  std::unique_ptr<TokenSource> source;
  int64_t size = 0;
};
// Opens a set to evaluate a net of images on; of the test images if its format tells them apart.
Result<EvaluatedImages> open_evaluated_images(const std::string& path, const RunConfig& config,
                                              int64_t num_classes);

// Opens the images of a net of images: data.train and data.val, a part of data.train that is held
// out, or generated ones. It is an error if their extents are not those of the model.
Result<SessionData> open_image_data(const RunConfig& config, int64_t num_classes);

}  // namespace trireme
