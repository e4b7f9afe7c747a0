#include "propagator/models/autoregressive_flow.h"
#include "propagator/models/conv_lstm.h"
#include "propagator/models/decoder_only.h"
#include "propagator/models/deeponet.h"
#include "propagator/models/density_former.h"
#include "propagator/models/encoder_decoder.h"
#include "propagator/models/event_former.h"
#include "propagator/models/flow_matching.h"
#include "propagator/models/fno.h"
#include "propagator/models/frame_cnn.h"
#include "propagator/models/frame_fno.h"
#include "propagator/models/frame_unet.h"
#include "propagator/models/gaussian.h"
#include "propagator/models/gaussian_process.h"
#include "propagator/models/heat_former.h"
#include "propagator/models/hit_former.h"
#include "propagator/models/kan.h"
#include "propagator/models/made.h"
#include "propagator/models/pgt.h"
#include "propagator/models/pinn.h"
#include "propagator/models/pinn_mamba.h"
#include "propagator/models/pinnsformer.h"
#include "propagator/models/pod.h"
#include "propagator/models/radial_basis.h"
#include "propagator/models/siren.h"
#include "propagator/models/space_time.h"
#include "propagator/models/spformer.h"
#include "propagator/models/wire.h"

namespace propagator::models {
namespace {

std::unique_ptr<FieldNetOptions> small_spformer() {
  auto options = std::make_unique<SpFormerOptions>();
  options->feed_forward = options->hidden = 64;
  return options;
}

template <nn::RelativePosition position, TokenFeatures features>
std::unique_ptr<FieldNetOptions> spformer() {
  auto options = std::make_unique<SpFormerOptions>();
  options->position = position;
  options->features = features;
  return options;
}

std::unique_ptr<DensityOptions> spline_flow() {
  auto options = std::make_unique<AutoregressiveFlowOptions>();
  options->map = FlowMap::kSpline;
  options->flows = 3;
  return options;
}

}  // namespace

const Kinds<ForecasterOptions>& forecasters() {
  static const Kinds<ForecasterOptions> kinds{
      {"heat_former",
       {"the transformer of the heat-plate paper, honest or as published",
        [] { return std::make_unique<HeatFormerOptions>(); }}},
  };
  return kinds;
}

const Kinds<FrameNetOptions>& frame_nets() {
  static const Kinds<FrameNetOptions> kinds{
      {"cnn",
       {"convolutions over the grid, of any field",
        [] { return std::make_unique<FrameCnnOptions>(); }}},
      {"conv_lstm",
       {"recurrent convolutions over the grid, of any field",
        [] { return std::make_unique<ConvLstmOptions>(); }}},
      {"fno",
       {"Fourier neural operator, of any field",
        [] { return std::make_unique<FrameFnoOptions>(); }}},
      {"space_time",
       {"transformer over patches in space and time, of any field",
        [] { return std::make_unique<SpaceTimeOptions>(); }}},
      {"unet",
       {"convolutions on finer and coarser grids, of any field",
        [] { return std::make_unique<FrameUnetOptions>(); }}},
  };
  return kinds;
}

const Kinds<FieldNetOptions>& field_nets() {
  using enum nn::RelativePosition;
  using enum TokenFeatures;
  static const Kinds<FieldNetOptions> kinds{
      {"deeponet",
       {"branch of the readings times trunk of the point (PI-DeepONet)",
        [] { return std::make_unique<DeepOnetOptions>(); }}},
      {"fno",
       {"Fourier neural operator over a grid of the readings",
        [] { return std::make_unique<FnoOptions>(); }}},
      {"gaussian_process",
       {"kriging: fitted to readings by likelihood, with its variance",
        [] { return std::make_unique<GaussianProcessOptions>(); }}},
      {"kan",
       {"splines on edges (Kolmogorov-Arnold), each point by itself",
        [] { return std::make_unique<KanOptions>(); }}},
      {"pgt",
       {"the transformer of the PGT paper, which answers from readings",
        [] { return std::make_unique<PgtOptions>(); }}},
      {"pinn",
       {"layers with tanh, each point by itself (the default)",
        [] { return std::make_unique<PinnOptions>(); }}},
      {"pinn-mamba",
       {"a selective state-space model over windows",
        [] { return std::make_unique<PinnMambaOptions>(); }}},
      {"pinnsformer",
       {"encoder and decoder over windows",
        [] { return std::make_unique<PinnsFormerOptions>(); }}},
      {"pod",
       {"modes of whole snapshots of a like flow, fitted to readings",
        [] { return std::make_unique<PodOptions>(); }}},
      {"radial_basis",
       {"radial functions of the distance to sensors, fitted at once",
        [] { return std::make_unique<RadialBasisOptions>(); }}},
      {"siren",
       {"layers with sines, each point by itself",
        [] { return std::make_unique<SirenOptions>(); }}},
      {"spformer", {"decoder over windows", spformer<kNone, kFourier>}},
      {"spformer-alibi",
       {"spformer, attention falls with distance", spformer<kAlibi, kFourier>}},
      {"spformer-rope",
       {"spformer, queries and keys rotated by place", spformer<kRope, kUnit>}},
      {"spformer-small",
       {"spformer with narrower layers, for a CPU (of recipe network)",
        small_spformer}},
      {"wire",
       {"layers with Gabor wavelets, each point by itself",
        [] { return std::make_unique<WireOptions>(); }}},
  };
  return kinds;
}

const Kinds<DensityOptions>& densities() {
  static const Kinds<DensityOptions> kinds{
      {"density_former",
       {"a transformer over variables, a mixture of normals for each",
        [] { return std::make_unique<DensityFormerOptions>(); }}},
      {"flow_matching",
       {"a stream that carries normal numbers to the data",
        [] { return std::make_unique<FlowMatchingOptions>(); }}},
      {"gaussian",
       {"one normal distribution, its mean and covariance by a network",
        [] { return std::make_unique<GaussianOptions>(); }}},
      {"made",
       {"a mixture of normals for each variable, by a masked network",
        [] { return std::make_unique<MadeOptions>(); }}},
      {"maf",
       {"masked autoregressive flow: affine maps in turn",
        [] { return std::make_unique<AutoregressiveFlowOptions>(); }}},
      {"spline_flow", {"autoregressive flow of monotone splines", spline_flow}},
  };
  return kinds;
}

const Kinds<LocatorOptions>& locators() {
  static const Kinds<LocatorOptions> kinds{
      {"event_former",
       {"the transformer of the detector lecture and its variants",
        [] { return std::make_unique<EventFormerOptions>(); }}},
      {"hit_former",
       {"a transformer over any set of sensors, with its uncertainty",
        [] { return std::make_unique<HitFormerOptions>(); }}},
  };
  return kinds;
}

const Kinds<SequenceOptions>& sequence_models() {
  static const Kinds<SequenceOptions> kinds{
      {"decoder_only",
       {"one causal stack over source and target in a row",
        [] { return std::make_unique<DecoderOnlyOptions>(); }}},
      {"encoder_decoder",
       {"the transformer of the heat-plate paper's figures 1 to 10",
        [] { return std::make_unique<EncoderDecoderOptions>(); }}},
  };
  return kinds;
}

}  // namespace propagator::models
