"""One loss per file: the formula in its first lines, the module that holds its settings below."""

from shadowmetric.losses.angular import AngularLoss as AngularLoss
from shadowmetric.losses.angular_triplet import AngularTripletLoss as AngularTripletLoss
from shadowmetric.losses.arc_face import ArcFaceLoss as ArcFaceLoss
from shadowmetric.losses.contrastive import ContrastiveLoss as ContrastiveLoss
from shadowmetric.losses.lifted_structure import LiftedStructureLoss as LiftedStructureLoss
from shadowmetric.losses.margins import equivalent_margins as equivalent_margins
from shadowmetric.losses.multi_similarity import MultiSimilarityLoss as MultiSimilarityLoss
from shadowmetric.losses.n_pair import NPairLoss as NPairLoss
from shadowmetric.losses.ranked_list import RankedListLoss as RankedListLoss
from shadowmetric.losses.shadow import ShadowLoss as ShadowLoss
from shadowmetric.losses.shadow import shadow_loss as shadow_loss
from shadowmetric.losses.shadow import shadow_loss_rows as shadow_loss_rows
from shadowmetric.losses.soft_margin_triplet import SoftMarginTripletLoss as SoftMarginTripletLoss
from shadowmetric.losses.soft_triple import SoftTripleLoss as SoftTripleLoss
from shadowmetric.losses.triplet import TripletLoss as TripletLoss
