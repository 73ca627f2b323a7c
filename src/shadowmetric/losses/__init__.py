"""One loss per file: the formula in its first lines, then a function, and the module that holds its settings.

The names imported here are public: `shadowmetric` has them too.
"""

from shadowmetric.losses.angular import AngularLoss, angular_loss
from shadowmetric.losses.angular_triplet import AngularTripletLoss, angular_triplet_loss
from shadowmetric.losses.arc_face import ArcFaceLoss, arc_face_loss
from shadowmetric.losses.circle import CircleLoss, circle_loss
from shadowmetric.losses.clustering import ClusteringLoss, clustering_loss
from shadowmetric.losses.contrastive import ContrastiveLoss, contrastive_loss
from shadowmetric.losses.cos_face import CosFaceLoss, cos_face_loss
from shadowmetric.losses.fast_ap import FastAPLoss, fast_ap_loss
from shadowmetric.losses.global_loss import GlobalLoss, global_loss
from shadowmetric.losses.group import GroupLoss, group_loss
from shadowmetric.losses.histogram import HistogramLoss, histogram_loss
from shadowmetric.losses.info_nce import InfoNCELoss, info_nce_loss
from shadowmetric.losses.lifted_structure import LiftedStructureLoss, lifted_structure_loss
from shadowmetric.losses.margin import MarginLoss, margin_loss
from shadowmetric.losses.margins import equivalent_margins
from shadowmetric.losses.multi_similarity import MultiSimilarityLoss, multi_similarity_loss
from shadowmetric.losses.n_pair import NPairLoss, n_pair_loss
from shadowmetric.losses.proxy_anchor import ProxyAnchorLoss, proxy_anchor_loss
from shadowmetric.losses.proxy_nca import ProxyNCALoss, proxy_nca_loss
from shadowmetric.losses.ranked_list import RankedListLoss, ranked_list_loss
from shadowmetric.losses.recall_at_k import RecallAtKLoss, recall_at_k_loss
from shadowmetric.losses.shadow import ShadowLoss, shadow_loss, shadow_loss_rows
from shadowmetric.losses.siglip import SigLIPLoss, siglip_loss
from shadowmetric.losses.smooth_ap import SmoothAPLoss, smooth_ap_loss
from shadowmetric.losses.soft_margin_triplet import SoftMarginTripletLoss, soft_margin_triplet_loss
from shadowmetric.losses.soft_triple import SoftTripleLoss, soft_triple_loss
from shadowmetric.losses.sub_center_arc_face import SubCenterArcFaceLoss, sub_center_arc_face_loss
from shadowmetric.losses.sup_con import SupConLoss, sup_con_loss
from shadowmetric.losses.triplet import TripletLoss, triplet_loss

__all__ = [
    "AngularLoss",
    "AngularTripletLoss",
    "ArcFaceLoss",
    "CircleLoss",
    "ClusteringLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "FastAPLoss",
    "GlobalLoss",
    "GroupLoss",
    "HistogramLoss",
    "InfoNCELoss",
    "LiftedStructureLoss",
    "MarginLoss",
    "MultiSimilarityLoss",
    "NPairLoss",
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "RankedListLoss",
    "RecallAtKLoss",
    "ShadowLoss",
    "SigLIPLoss",
    "SmoothAPLoss",
    "SoftMarginTripletLoss",
    "SoftTripleLoss",
    "SubCenterArcFaceLoss",
    "SupConLoss",
    "TripletLoss",
    "angular_loss",
    "angular_triplet_loss",
    "arc_face_loss",
    "circle_loss",
    "clustering_loss",
    "contrastive_loss",
    "cos_face_loss",
    "equivalent_margins",
    "fast_ap_loss",
    "global_loss",
    "group_loss",
    "histogram_loss",
    "info_nce_loss",
    "lifted_structure_loss",
    "margin_loss",
    "multi_similarity_loss",
    "n_pair_loss",
    "proxy_anchor_loss",
    "proxy_nca_loss",
    "ranked_list_loss",
    "recall_at_k_loss",
    "shadow_loss",
    "shadow_loss_rows",
    "siglip_loss",
    "smooth_ap_loss",
    "soft_margin_triplet_loss",
    "soft_triple_loss",
    "sub_center_arc_face_loss",
    "sup_con_loss",
    "triplet_loss",
]
