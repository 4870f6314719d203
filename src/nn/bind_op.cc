#include "base/check.h"
#include "nn/attention_body.h"
#include "nn/elementwise_bodies.h"
#include "nn/expert_bodies.h"
#include "nn/image_bodies.h"
#include "nn/latent_ring.h"
#include "nn/linear_body.h"
#include "nn/lookup_body.h"
#include "nn/loss_body.h"
#include "nn/norm_body.h"
#include "nn/route_body.h"

namespace trireme {

std::unique_ptr<OpBody> bind_op(const OpBinding& b) {
  switch (b.op().kind) {
    case OpKind::Lookup:
      return std::make_unique<LookupBody>(b);
    case OpKind::Norm:
      return std::make_unique<NormBody>(b);
    case OpKind::Linear:
      return std::make_unique<LinearBody>(b);
    case OpKind::GroupedLinear:
      return std::make_unique<GroupedLinearBody>(b);
    case OpKind::Rope:
      return std::make_unique<RopeBody>(b);
    case OpKind::Concat:
      return std::make_unique<ConcatBody>(b);
    case OpKind::Attention:
      return std::make_unique<AttentionBody>(b);
    case OpKind::LatentAttention:  // the decoder binds it to its cache
      return std::make_unique<LatentRing>(b);
    case OpKind::Activation:
      return std::make_unique<ActivationBody>(b);
    case OpKind::Dropout:
      return std::make_unique<DropoutBody>(b);
    case OpKind::Scale:
      return std::make_unique<ScaleBody>(b);
    case OpKind::Add:
      return std::make_unique<AddBody>(b);
    case OpKind::Route:
      return std::make_unique<RouteBody>(b);
    case OpKind::Dispatch:
      return std::make_unique<DispatchBody>(b);
    case OpKind::Combine:
      return std::make_unique<CombineBody>(b);
    case OpKind::CrossEntropy:
      return std::make_unique<LossBody>(b);
    case OpKind::Redistribute:
      if (has_images(b.output_value())) return std::make_unique<RedistributeImagesBody>(b);
      return std::make_unique<RedistributeBody>(b);
    case OpKind::Pixels:
      return std::make_unique<PixelsBody>(b);
    case OpKind::Convolution:
      return std::make_unique<ConvolutionBody>(b);
    case OpKind::BatchNorm:
      return std::make_unique<BatchNormBody>(b);
    case OpKind::Pool:
      return std::make_unique<PoolBody>(b);
    case OpKind::Flatten:
      return std::make_unique<FlattenBody>(b);
    case OpKind::ChooseKeys:  // is priced and never run (check_runnable)
    case OpKind::Count:
    case OpKind::Choose:
    case OpKind::SoftmaxParts:
      break;
  }
  TRIREME_CHECK(false, "the pass fuse joins this op to another: " + b.op().name);
}

}  // namespace trireme
