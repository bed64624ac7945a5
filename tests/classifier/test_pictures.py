import pytest
import torch

from cplsr.classifier.embed_pictures import Embedder
from cplsr.classifier.pictures import as_pictures
from cplsr.errors import InputError


def test_the_image_whose_embedding_is_not_finite_is_named(backbone):
    pixels = torch.zeros(5, 3, 32, 32)
    pixels[3] = torch.nan

    with pytest.raises(InputError, match=r"the embedding of image 3 is not finite.*vit_random.*precision fp32"):
        list(Embedder(backbone, batch_size=2).batches(pixels))


def test_what_a_folder_holds_besides_images_is_told(query):
    with pytest.warns(UserWarning, match="1 file of .* passed over: 1 .txt"):
        as_pictures(query)
