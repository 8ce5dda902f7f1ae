"""Index of the mechanisms that doors offer, written by `make index` from their classes."""

from __future__ import annotations

from sfumato.mechanisms.registry import Option, Place

# fmt: off
# ruff: noqa: E501
#: By name.
PLACES: dict[str, Place] = {
    'additive-noise': Place('sfumato.mechanisms.additive', 'AdditiveNoise', ('array',)),
    'band-noise': Place('sfumato.media.audio.band_noise', 'BandNoise', ('sound', 'video'), ('sound',)),
    'binary-encoding': Place('sfumato.mechanisms.transforms.binary_encoding', 'BinaryEncoding', ('array',)),
    'blur': Place('sfumato.media.images.redaction', 'Blur', ('picture', 'video')),
    'content-adaptive': Place('sfumato.media.images.content_adaptive', 'ContentAdaptive', ('picture', 'video')),
    'dp-pix': Place('sfumato.media.images.image_baselines', 'DPPix', ('picture', 'video')),
    'duchi': Place('sfumato.mechanisms.box_reports', 'Duchi', ('array',)),
    'gaussian': Place('sfumato.mechanisms.additive', 'Gaussian', ('array', 'table'), ('array', 'table')),
    'grid-tensor-ldp': Place('sfumato.mechanisms.grid_tensor', 'GridTensorLDP', ('array',)),
    'hybrid': Place('sfumato.mechanisms.box_reports', 'Hybrid', ('array',)),
    'laplace': Place('sfumato.mechanisms.additive', 'Laplace', ('array', 'table')),
    'mask': Place('sfumato.media.images.redaction', 'Mask', ('picture', 'video')),
    'mel-laplace': Place('sfumato.media.audio.mel_laplace', 'MelLaplace', ('sound', 'video')),
    'personalised': Place('sfumato.mechanisms.additive', 'Personalised', ('array',)),
    'piecewise': Place('sfumato.mechanisms.box_reports', 'Piecewise', ('array',)),
    'pixelate': Place('sfumato.media.images.redaction', 'Pixelate', ('picture', 'video')),
    'plane-bands': Place('sfumato.media.images.plane_bands', 'PlaneBands', ('picture', 'video')),
    'plane-means': Place('sfumato.media.images.plane_means', 'PlaneMeans', ('picture', 'video'), ('picture', 'video')),
    'priv-unit': Place('sfumato.mechanisms.privunit', 'PrivUnit', ('array',)),
    'priv-unit-g': Place('sfumato.mechanisms.privunit', 'PrivUnitG', ('array',)),
    'random-projection': Place('sfumato.mechanisms.transforms.random_projection', 'RandomProjection', ('array',)),
    'randomised-response': Place('sfumato.mechanisms.randomised_response', 'RandomisedResponse', ('array',)),
    'reconstruction-resistant': Place('sfumato.mechanisms.transforms.random_projection', 'ReconstructionResistant', ('array',)),
    'scaled-pixels': Place('sfumato.media.images.image_baselines', 'ScaledPixels', ('picture', 'video')),
    'selective-noise': Place('sfumato.media.images.selective_noise', 'SelectiveNoise', ('picture', 'video')),
    'spectral-laplace': Place('sfumato.media.images.image_baselines', 'SpectralLaplace', ('picture', 'video')),
    'tensor-ldp': Place('sfumato.mechanisms.tensor_ldp', 'TensorLDP', ('array',)),
    'trust-adaptive': Place('sfumato.mechanisms.trust_adaptive', 'TrustAdaptive', ('array', 'table')),
    'uniform-pixels': Place('sfumato.media.images.image_baselines', 'UniformPixels', ('picture', 'video')),
    'weighted-tensor-ldp': Place('sfumato.mechanisms.tensor_ldp', 'WeightedTensorLDP', ('array',)),
}

#: What is declared of a parameter, once for all mechanisms that declare the same.
OPTIONS: dict[str, tuple[Option, ...]] = {
    'alpha': (
        Option(('spectral-laplace',), help='How fast the noise grows with frequency.', types=('number',), default=0.6, doors=('service',)),
    ),
    'bits': (
        Option(('binary-encoding',), help='Bits for each value.', symbol='B', types=('whole number',), default=8, doors=('command line', 'service')),
    ),
    'block': (
        Option(('content-adaptive', 'plane-means'), help='Side in pixels of what is averaged; chosen by the size unless given.', symbol='B', types=('whole number',), doors=('command line', 'service')),
        Option(('dp-pix', 'pixelate'), help='Side in pixels of what is averaged.', symbol='B', types=('whole number',), default=16, doors=('command line', 'service')),
    ),
    'bounds': (
        Option(('binary-encoding',), help='Lowest and highest value; values beyond are moved to the nearer one.', symbol='LOW HIGH', types=('number',), several=True, doors=('command line', 'service')),
        Option(('duchi', 'grid-tensor-ldp', 'hybrid', 'piecewise', 'tensor-ldp', 'weighted-tensor-ldp'), help='Lowest and highest value; values beyond are refused unless they are clipped.', symbol='LOW HIGH', types=('number',), several=True, bound=True, doors=('command line', 'service')),
        Option(('gaussian', 'laplace', 'personalised', 'trust-adaptive'), help='Lowest and highest value; values beyond are moved to the nearer one.', symbol='LOW HIGH', types=('number',), several=True, bound=True, doors=('command line', 'service')),
    ),
    'calibration': (
        Option(('trust-adaptive',), help='How much noise is added: what proves ε, or what the paper prints.', types=('word',), choices=('analytic', 'paper', 'paper-tables'), default='analytic', doors=('command line', 'service')),
    ),
    'categories': (
        Option(('randomised-response',), help='Number of categories: values are 0 … K−1.', symbol='K', types=('whole number',), default=2, doors=('command line', 'service')),
    ),
    'chroma': (
        Option(('content-adaptive', 'plane-means'), help='Share of the budget that both colour differences get; chosen by the size unless given.', types=('number',), doors=('command line', 'service')),
        Option(('plane-bands',), help='Share of the budget that both colour differences get.', types=('number',), default=0.3, doors=('command line', 'service')),
    ),
    'clip': (
        Option(('band-noise',), help='Largest size of a sample; larger ones are clipped.', types=('number',), default=1.0, doors=('command line', 'service')),
        Option(('gaussian', 'laplace', 'personalised', 'priv-unit', 'priv-unit-g', 'trust-adaptive'), help='Longest record; longer ones are scaled back. The length is L2, for laplace L1.', symbol='RADIUS', types=('number',), bound=True, doors=('command line', 'service')),
    ),
    'components': (
        Option(('random-projection', 'reconstruction-resistant'), help='Number of dimensions that are kept.', symbol='K', types=('whole number',), default=64, doors=('command line', 'service')),
    ),
    'coordinates': (
        Option(('duchi', 'hybrid', 'piecewise'), help='How many values of a record are reported; chosen from ε unless given.', symbol='K', types=('whole number',), doors=('command line', 'service')),
    ),
    'coverage': (
        Option(('selective-noise',), help='Share of the pixels that gets noise.', types=('number',), doors=('command line', 'service')),
    ),
    'cutoff': (
        Option(('band-noise',), help='Highest frequency of coefficients, in hertz.', symbol='HERTZ', types=('number',), default=4000.0, doors=('command line', 'service')),
    ),
    'decay': (
        Option(('mel-laplace',), help='How fast the noise fades, in milliseconds.', types=('number',), default=50.0, doors=('command line', 'service')),
    ),
    'declared': (
        Option(('content-adaptive',), help='Map of sensitivity, or an array of scores.', types=('number',), array=True, doors=('service',)),
    ),
    'delta': (
        Option(('band-noise', 'content-adaptive', 'plane-bands', 'plane-means', 'uniform-pixels'), help='Failure probability: 0 for Laplace noise, more for Gaussian noise.', symbol='δ', types=('number',), default=0.0, doors=('command line', 'service')),
        Option(('gaussian', 'personalised', 'spectral-laplace', 'tensor-ldp', 'trust-adaptive', 'weighted-tensor-ldp'), help='Failure probability of Gaussian noise.', symbol='δ', types=('number',), default=1e-06, doors=('command line', 'service')),
    ),
    'detectors': (
        Option(('content-adaptive',), help='What looks for sensitive places.', several=True, doors=('command line', 'service')),
    ),
    'distrust': (
        Option(('trust-adaptive',), help='From 0, the most trusted reader with the least noise, to 1.', symbol='τ', types=('number',), default=1.0, doors=('command line', 'service')),
    ),
    'epsilon': (
        Option(('band-noise', 'binary-encoding', 'content-adaptive', 'dp-pix', 'duchi', 'gaussian', 'grid-tensor-ldp', 'hybrid', 'laplace', 'mel-laplace', 'piecewise', 'plane-bands', 'plane-means', 'priv-unit', 'priv-unit-g', 'randomised-response', 'scaled-pixels', 'selective-noise', 'spectral-laplace', 'tensor-ldp', 'uniform-pixels', 'weighted-tensor-ldp'), help='Privacy budget of one unit.', symbol='ε', types=('number',), doors=('command line', 'service')),
        Option(('personalised',), help='One public privacy budget for all records, or one for each.', symbol='ε', types=('number',), doors=('command line', 'service')),
        Option(('trust-adaptive',), help='Privacy budgets of the least and of the most trusted reader.', symbol='ε', types=('number',), several=True, doors=('command line', 'service')),
    ),
    'epsilon_file': (
        Option(('personalised',), help='A .npy file with one ε a record.', symbol='FILE', types=('file',), doors=('command line',)),
    ),
    'flip': (
        Option(('binary-encoding',), help='Probability that a bit is flipped, instead of ε.', symbol='P', types=('number',), default=0.1, doors=('command line', 'service')),
    ),
    'k': (
        Option(('selective-noise',), help="How many deviations above the mean a pixel's importance has to be.", types=('number',), default=0.0, doors=('command line', 'service')),
    ),
    'keep': (
        Option(('band-noise',), help='What is released of each block: the nearest public shape of speech, or its coefficients.', types=('word',), choices=('shapes', 'coefficients'), default='shapes', doors=('command line', 'service')),
    ),
    'kept': (
        Option(('plane-bands',), help='Share of the frequencies that is kept; chosen by the size unless given.', types=('number',), doors=('command line', 'service')),
    ),
    'levels': (
        Option(('grid-tensor-ldp',), help='Number of public levels between the bounds.', symbol='K', types=('whole number',), default=256, doors=('command line', 'service')),
    ),
    'low': (
        Option(('content-adaptive',), help='Least share of ε that a place gets.', types=('number',), default=0.05, doors=('command line', 'service')),
    ),
    'map': (
        Option(('content-adaptive',), help='What the noise follows: public boxes (.json), or private or unaccounted, by detectors.', symbol='MAP', types=('word',), choices=('public', 'private', 'unaccounted'), default='public', doors=('command line', 'service')),
    ),
    'map_share': (
        Option(('content-adaptive',), help='Share of ε that pays for a private map.', types=('number',), default=0.2, doors=('command line', 'service')),
    ),
    'mask': (
        Option(('mask',), help='Public array over the picture: what is not 0 is painted over; everything unless given.', types=('number',), several=True, array=True, doors=('command line', 'service')),
    ),
    'moment': (
        Option(('mel-laplace',), help='Where the noise is largest, in milliseconds; the middle unless given.', types=('number',), doors=('command line', 'service')),
    ),
    'neighbours': (
        Option(('gaussian', 'laplace', 'personalised', 'trust-adaptive'), help='What may become of a record: replaced by any other, or zeroed out.', types=('word',), choices=('replace', 'zero-out'), default='replace', doors=('command line', 'service')),
    ),
    'noise': (
        Option(('spectral-laplace', 'tensor-ldp', 'weighted-tensor-ldp'), help='Law of the noise.', types=('word',), choices=('laplace', 'gaussian'), default='laplace', doors=('command line', 'service')),
    ),
    'outside': (
        Option(('duchi', 'grid-tensor-ldp', 'hybrid', 'piecewise', 'tensor-ldp', 'weighted-tensor-ldp'), help='Whether values beyond the bounds are refused or clipped.', types=('word',), choices=('refuse', 'clip'), default='refuse', doors=('command line', 'service')),
    ),
    'phase': (
        Option(('mel-laplace',), help='Recovered from the noisy levels, or the clean one, which proves nothing.', types=('word',), choices=('griffin-lim', 'keep'), default='griffin-lim', doors=('command line', 'service')),
    ),
    'reserve': (
        Option(('content-adaptive',), help="Share of the noise's ε that is spread evenly.", types=('number',), default=0.2, doors=('command line', 'service')),
    ),
    'restore': (
        Option(('band-noise',), help='What is made of noisy bands; costs no privacy.', types=('word',), choices=('wiener', 'none'), default='wiener', doors=('command line', 'service')),
        Option(('content-adaptive', 'plane-means'), help='What is made of noisy averages; costs no privacy.', types=('word',), choices=('none', 'smooth', 'wiener', 'learned'), default='learned', doors=('command line', 'service')),
        Option(('plane-bands',), help='What is made of noisy coefficients; costs no privacy.', types=('word',), choices=('none', 'wiener'), default='wiener', doors=('command line', 'service')),
    ),
    'retain': (
        Option(('tensor-ldp', 'weighted-tensor-ldp'), help="Which of the paper's two formulas gives the probability of keeping a component.", types=('word',), choices=('algorithm', 'proof'), default='algorithm', doors=('command line', 'service')),
    ),
    'scale': (
        Option(('additive-noise',), help='Standard deviation of the noise.', symbol='σ', types=('number',), default=0.1, doors=('command line', 'service')),
    ),
    'seed': (
        Option(('random-projection', 'reconstruction-resistant'), help='Names the public projection.', types=('whole number',), default=0, doors=('command line', 'service')),
    ),
    'shapes': (
        Option(('band-noise',), help='Number of public shapes; as many as ε can tell apart unless given.', types=('whole number',), doors=('command line', 'service')),
    ),
    'shares': (
        Option(('plane-means',), help='Public part of ε that each place gets, stretched over the picture.', types=('number',), several=True, array=True, doors=('command line', 'service')),
    ),
    'sigma': (
        Option(('blur',), help='How far it reaches, in pixels.', symbol='PIXELS', types=('number',), default=8.0, doors=('command line', 'service')),
    ),
    'sound_unit': (
        Option(('band-noise', 'mel-laplace'), help='Part of a sound that ε is for, where the unit is one of pictures.', symbol='UNIT', types=('word',), doors=('command line', 'service')),
    ),
    'strategy': (
        Option(('selective-noise',), help='Which pixels get noise.', types=('word',), choices=('uniform', 'random', 'gradient', 'attention', 'hybrid'), default='hybrid', doors=('command line', 'service')),
    ),
    'tile': (
        Option(('content-adaptive',), help='Side in pixels of a tile of the map.', types=('whole number',), default=64, doors=('command line', 'service')),
    ),
    'unit': (
        Option(('band-noise', 'mel-laplace'), help='Part of a sound that ε is for: window:20 (milliseconds), channel or clip.', symbol='UNIT', types=('word',), default='window(20)', doors=('command line', 'service')),
        Option(('blur', 'content-adaptive', 'mask', 'pixelate', 'plane-bands', 'plane-means', 'scaled-pixels', 'spectral-laplace', 'uniform-pixels'), help='Part of a picture that ε is for: region:16, pixels:16 or item.', symbol='UNIT', types=('word',), default='region(16)', doors=('command line', 'service')),
        Option(('dp-pix',), help='Part of a picture that ε is for: region:16, pixels:16 or item.', symbol='UNIT', types=('word',), default='pixels(16)', doors=('command line', 'service')),
        Option(('grid-tensor-ldp',), help='Part of a tensor that ε is for.', types=('word',), choices=('component', 'tensor'), default='tensor', doors=('command line', 'service')),
        Option(('selective-noise',), help='Part of a picture that ε is for: region:16, pixels:16 or item.', symbol='UNIT', types=('word',), default='pixels(1)', doors=('command line', 'service')),
        Option(('tensor-ldp', 'weighted-tensor-ldp'), help='Part of a tensor that ε is for.', types=('word',), choices=('component', 'tensor'), default='component', doors=('command line', 'service')),
    ),
    'value': (
        Option(('mask',), help='What is painted, from 0 for black to 1 for white.', types=('number',), default=0.5, doors=('command line', 'service')),
    ),
    'weighting': (
        Option(('band-noise',), help='How bands count: by how well they are heard, or equally.', types=('word',), choices=('iso226', 'flat'), default='iso226', doors=('command line', 'service')),
    ),
    'weights': (
        Option(('content-adaptive',), help='Weights of identity, location, behaviour and preference.', types=('number',), several=True, doors=('command line', 'service')),
        Option(('randomised-response',), help='Shares of ε, one positive number for each column; equal unless given.', types=('number',), several=True, array=True, doors=('command line', 'service')),
        Option(('weighted-tensor-ldp',), help='Sensitivity of each component, from 0 to 1; grey or saliency are read off data and paid.', symbol='W', types=('number',), several=True, array=True, default=0.0, doors=('command line', 'service')),
    ),
}
