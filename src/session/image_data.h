#pragma once

#include "base/result.h"
#include "schema/model_spec.h"
#include "session/session_data.h"

namespace trireme {

// Number of classes of the configured set of images; 0 for generated images.
Result<int64_t> num_image_classes(const RunConfig& config);

// Opens the images of a net of images: data.train and data.val, a part of data.train that is held
// out, or generated ones. It is an error if their extents are not those of the model.
Result<SessionData> open_image_data(const RunConfig& config, int64_t num_classes);

}  // namespace trireme
