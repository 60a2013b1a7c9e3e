"""Task `imagenet-1k`: photographs in 1000 classes, cut to 256x256 pixels once; a model gets 224x224 of them.

Source: Russakovsky et al., "ImageNet large scale visual recognition challenge" (2015), arXiv 1409.0575.
Mean and deviation are the customary ones (github.com/pytorch/examples, `imagenet/main.py`).
"""

from harness.data.pictures import Pictures

PICTURES = Pictures("imagenet-1k", mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225))
fingerprint = PICTURES.fingerprint
train_size = PICTURES.train_size
ready = PICTURES.ready
load = PICTURES.load
