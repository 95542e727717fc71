// Starts the page.
import "./state/scale"; // first: others measure how much room there is
import { render } from "preact";
import { App } from "./app";
import { applyTheme } from "./state/theme";
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/strip.css";
import "./styles/panels.css";
import "./styles/views.css";
import "./styles/graph.css";
import "./styles/tensor.css";
import "./styles/watch.css";
import "./styles/recording.css";
import "./styles/narrow.css";

applyTheme();
const root = document.getElementById("page");
if (root) render(<App />, root);
