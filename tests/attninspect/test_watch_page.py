"""The log of a watch as a page, also while it is written; callbacks; TensorBoard."""

import json
import warnings

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import attnverify as av
import modelzoo
from attninspect import watch_page
from attninspect.watch_log import Log
from attnverify.cli import app


def logged(path, steps: int) -> av.Watch:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    watch = av.Watch(model, path, every=1)
    for step in range(steps):
        watch.step(step, torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(step)))
    return watch


def ran(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["watch", *map(str, arguments)])
    told = str(result.exception) if result.exception else ""
    return result.exit_code, result.output + told


def test_the_page_has_the_last_record_and_the_figures(tmp_path):
    watch = logged(tmp_path / "log.jsonl", 4)
    code, said = ran(tmp_path / "log.jsonl")
    assert code == 0 and "TransformerEncoder, 3 layers; 4 measurements, steps 0 to 3" in said
    html = (tmp_path / "log.html").read_text()
    assert html.count("<svg") == 6 and "http://" not in html.replace("http://www.w3.org", "")
    last = watch.records[-1]
    for row, layer in zip(watch_page.rows(watch.records), last.layers, strict=True):
        assert row["entropy"] == min(head.entropy for head in layer.heads)
        assert f'data-n="{row["gauge"]!r}"' in html
    assert "Layer by layer, step 3" in html


def test_json_has_every_record(tmp_path):
    watch = logged(tmp_path / "log.jsonl", 2)
    result = CliRunner().invoke(app, ["watch", str(tmp_path / "log.jsonl"), "--json"])
    found = json.loads(result.stdout)
    assert found["records"] == [record.scalars() for record in watch.records]


def test_a_log_that_is_being_written(tmp_path):
    """A line without its end is left out and left alone; a log without records has a page."""
    path = tmp_path / "log.jsonl"
    logged(path, 2)
    torn = path.read_text() + '{"step": 2, "lay'
    path.write_text(torn)
    code, said = ran(path)
    assert code == 0 and "2 measurements" in said and path.read_text() == torn
    head = path.read_text().split("\n")[0] + "\n"
    path.write_text(head)
    assert ran(path)[0] == 0 and Log.of(path).records == []


def test_a_training_that_diverged_has_a_page(tmp_path):
    """Figures that are not defined are null in the log, and named so in the page."""
    path = tmp_path / "log.jsonl"
    logged(path, 2)
    lines = path.read_text().splitlines()
    body = json.loads(lines[-1])
    body["layers"][0] |= {"residual": None}
    body["layers"][0]["heads"][0] |= dict.fromkeys(body["layers"][0]["heads"][0])
    path.write_text("\n".join([*lines[:-1], json.dumps(body)]) + "\n")
    assert ran(path)[0] == 0
    html = (tmp_path / "log.html").read_text()
    assert "not defined" in html and "nan" not in html.partition("<table")[0].partition("<svg")[2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "which is no file, expected a log that av.Watch writes"),
        (
            "{}\n",
            "log, line 1 of log.jsonl: got a line 'dict', expected an object of format, class",
        ),
        ("no json\n", "log, line 1 of log.jsonl: got JSONDecodeError"),
        ("", "log: got log.jsonl without a whole line, expected a log that av.Watch writes"),
    ],
)
def test_what_is_no_log(tmp_path, content, words):
    if content is not None:
        (tmp_path / "log.jsonl").write_text(content)
    code, said = ran(tmp_path / "log.jsonl")
    assert code != 0 and words in said


def test_a_file_of_somebody_else_is_not_replaced(tmp_path):
    logged(tmp_path / "log.jsonl", 1)
    (tmp_path / "log.html").write_text("<p>mine</p>")
    code, said = ran(tmp_path / "log.jsonl")
    assert code != 0 and "was not written by this program" in said
    assert (tmp_path / "log.html").read_text() == "<p>mine</p>"


def test_means_go_to_a_writer():
    """Residual and diameter of each layer, and the means over its heads."""
    told = {}

    class Writer:
        def add_scalar(self, name, value, step):
            told[step, name] = value

    model = modelzoo.model("gpt2")
    record = av.Watch(model, every=2, writer=Writer()).step(4, modelzoo.inputs("gpt2"))
    assert told == {(4, name): value for name, value in record.scalars().items()}
    head = record.layers[0].heads
    assert told[4, "attention/layer 1/gauge"] == sum(h.gauge for h in head) / len(head)


def test_tensorboard_reads_what_was_written(tmp_path):
    """Its file has what the record has, in float32."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    model = modelzoo.model("gpt2")
    with SummaryWriter(tmp_path) as writer:
        record = av.Watch(model, every=2, writer=writer).step(4, modelzoo.inputs("gpt2"))
    events = EventAccumulator(str(tmp_path)).Reload()
    for name, value in record.scalars().items():
        (found,) = events.Scalars(name)
        assert found.step == 4 and found.value == torch.tensor(value).float().item()


def test_a_writer_without_add_scalar():
    with pytest.raises(av.InputError, match="writer: got str, expected an object with add_scalar"):
        av.Watch(modelzoo.model("gpt2"), writer="runs")


def weights_of(model) -> list[torch.Tensor]:
    return [value.detach().clone() for value in model.parameters()]


@pytest.mark.filterwarnings("default")
def test_the_trainer_of_transformers(tmp_path):
    """Measured at steps 0, 2, 4 of 5, on one batch; the trained weights are the same without."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    def trained(watched: bool):
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(**modelzoo.GPT2))
        words = torch.randint(23, (40, 8), generator=torch.Generator().manual_seed(1))
        data = [{"input_ids": each, "labels": each} for each in words]
        watch = av.Watch(model.transformer, tmp_path / "log.jsonl", every=2)
        arguments = TrainingArguments(
            output_dir=str(tmp_path / "out"),
            max_steps=5,
            per_device_train_batch_size=2,
            report_to=[],
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
        )
        calls = [watch.trainer_callback({"input_ids": words[:1]})] if watched else []
        Trainer(model=model, args=arguments, train_dataset=data, callbacks=calls).train()
        return weights_of(model), watch

    (after, watch), (without, _) = trained(True), trained(False)
    assert [record.step for record in watch.records] == [0, 2, 4]
    assert all(torch.equal(a, b) for a, b in zip(after, without, strict=True))


@pytest.mark.filterwarnings("default")
def test_the_trainer_of_lightning(tmp_path):
    """The same with Lightning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def training_step(self, batch, batch_idx):
            return self.encoder(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def trained(watched: bool):
        torch.manual_seed(0)
        module = Module()
        data = torch.randn(20, 5, 8, generator=torch.Generator().manual_seed(1))
        watch = av.Watch(module.encoder, every=2)
        trainer = Trainer(
            max_steps=5,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[watch.lightning_callback(data[:1])] if watched else [],
            default_root_dir=tmp_path,
        )
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=4))
        return weights_of(module), watch

    (after, watch), (without, _) = trained(True), trained(False)
    assert [record.step for record in watch.records] == [0, 2, 4]
    assert all(torch.equal(a, b) for a, b in zip(after, without, strict=True))
