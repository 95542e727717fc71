"""The callbacks of MindSpore's guide on custom debugging, as they stand there but for imports."""

from __future__ import annotations

import time

from opscope.train import Callback, save_checkpoint


class StopAtTime(Callback):
    def __init__(self, run_time):
        super().__init__()
        self.run_time = run_time * 60

    def begin(self, run_context):
        cb_params = run_context.original_args()
        cb_params.init_time = time.time()

    def step_end(self, run_context):
        cb_params = run_context.original_args()
        epoch_num = cb_params.cur_epoch_num
        step_num = cb_params.cur_step_num
        loss = cb_params.net_outputs
        cur_time = time.time()
        if (cur_time - cb_params.init_time) > self.run_time:
            print("epoch: ", epoch_num, " step: ", step_num, " loss: ", loss)
            run_context.request_stop()


class SaveCallback(Callback):
    def __init__(self, eval_model, ds_eval):
        super().__init__()
        self.model = eval_model
        self.ds_eval = ds_eval
        self.acc = 0

    def step_end(self, run_context):
        cb_params = run_context.original_args()
        result = self.model.eval(self.ds_eval)
        if result["accuracy"] > self.acc:
            self.acc = result["accuracy"]
            file_name = str(self.acc) + ".ckpt"
            save_checkpoint(save_obj=cb_params.train_network, ckpt_file_name=file_name)
            print("Save the maximum accuracy checkpoint,the accuracy is", self.acc)
